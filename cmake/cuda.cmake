# SPDX-License-Identifier: Apache-2.0
# The language CUDA for our own build, with nvcc from where NVIDIA puts it. causeway::cuda and causeway::cublaslt are components
# like the others: causewayComponents.cmake.

if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(nvcc_program nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(nvcc_program)
  if(nvcc_program)
    set(CMAKE_CUDA_COMPILER "${nvcc_program}")
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
