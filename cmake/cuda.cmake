# SPDX-License-Identifier: Apache-2.0
# causeway::cuda: what a .cu file needs on top of causeway::causeway. Keep network headers out of .cu files: asio 1.22
# does not compile under nvcc.

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
find_package(CUDAToolkit REQUIRED)

# CMake 3.25 does not know that nvcc speaks C++20: it drops the request without a word and builds C++17. In the cache, so that
# projects which add this one as a folder are helped too.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20" CACHE INTERNAL "")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20" CACHE INTERNAL "")
endif()
set(CMAKE_CUDA_STANDARD 20)

# Constexpr functions of the standard library (std::bit_cast) are used in device code.
add_library(causeway_cuda INTERFACE)
add_library(causeway::cuda ALIAS causeway_cuda)
target_link_libraries(causeway_cuda INTERFACE causeway::causeway CUDA::cudart)
target_compile_options(causeway_cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")

# causeway::cublaslt: for programs that include causeway/cuda/matmul.cuh. Apart, because cuBLASLt takes half a gigabyte on
# every machine that the program runs on.
add_library(causeway_cublaslt INTERFACE)
add_library(causeway::cublaslt ALIAS causeway_cublaslt)
target_link_libraries(causeway_cublaslt INTERFACE causeway::cuda CUDA::cublasLt)
