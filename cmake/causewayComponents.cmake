# SPDX-License-Identifier: Apache-2.0
# The optional parts: one interface target per third-party library, made where the library is found. The build tree and
# the installed package read this same file, so that a component means the same in both. None is needed to use the rest.
#
#   causeway_find_component(asio)    causeway::asio     net/asio_transport.hpp
#   causeway_find_component(cereal)  causeway::cereal   io/cereal_archive.hpp
#   causeway_find_component(json)    causeway::json     formats/*.hpp; adds them to causeway.hpp
#   causeway_find_component(onednn)  causeway::onednn   kernels/onednn_gemm.hpp
#   causeway_find_component(blas)    causeway::blas     kernels/cblas_gemm.hpp
#   causeway_find_component(mpi)     causeway::mpi      net/mpi_*.hpp and collective/mpi_*.hpp: of Open MPI or MPICH, whichever
#                                    find_package(MPI) takes; MPI_EXECUTABLE_SUFFIX=.mpich chooses where both are installed
#   causeway_find_component(cuda)    causeway::cuda     cuda/*.cuh but matmul.cuh, in projects with the language CUDA
#   causeway_find_component(cublaslt)  causeway::cublaslt  cuda/device/matmul.cuh, and what includes it, such as cuda/engine.cuh
#   causeway_find_component(nccl)    causeway::nccl     cuda/nccl.cuh, in what is compiled as CUDA
#   causeway_find_component(compiled)  causeway::compiled  what is no template, compiled once, with the flags of the project
#
# Sets causeway_<component>_FOUND, and causeway_<component>_HINT to one line that says what is missing.

set(causeway_COMPONENTS asio cereal json onednn blas mpi cuda cublaslt nccl compiled)

# Makes causeway::<component>; `target` names it for target_*() calls. Imported where causeway itself is imported.
macro(causeway_new_component component)
  get_target_property(causeway_aliased causeway::causeway ALIASED_TARGET)
  if(causeway_aliased)
    set(target causeway_${component})
    add_library(${target} INTERFACE)
    add_library(causeway::${component} ALIAS ${target})
  else()
    set(target causeway::${component})
    add_library(${target} INTERFACE IMPORTED)
  endif()
  target_link_libraries(${target} INTERFACE causeway::causeway)
endmacro()

function(causeway_find_asio)
  set(causeway_asio_HINT "stand-alone Asio headers (Debian: libasio-dev)" PARENT_SCOPE)
  find_package(Asio 1.18 QUIET MODULE)
  if(NOT Asio_FOUND)
    return()
  endif()
  causeway_new_component(asio)
  target_include_directories(${target} SYSTEM INTERFACE "${Asio_INCLUDE_DIR}")
  target_compile_definitions(${target} INTERFACE ASIO_STANDALONE)
endfunction()

# A component that is headers alone, found by one of them.
macro(causeway_find_headers component header)
  string(TOUPPER ${component} upper)
  find_path(causeway_${upper}_INCLUDE_DIR ${header})
  mark_as_advanced(causeway_${upper}_INCLUDE_DIR)
  if(NOT causeway_${upper}_INCLUDE_DIR)
    return()
  endif()
  causeway_new_component(${component})
  target_include_directories(${target} SYSTEM INTERFACE "${causeway_${upper}_INCLUDE_DIR}")
endmacro()

function(causeway_find_cereal)
  set(causeway_cereal_HINT "cereal 1.3 headers (Debian: libcereal-dev)" PARENT_SCOPE)
  causeway_find_headers(cereal cereal/cereal.hpp)
endfunction()

function(causeway_find_json)
  set(causeway_json_HINT "nlohmann-json 3 headers (Debian: nlohmann-json3-dev)" PARENT_SCOPE)
  causeway_find_headers(json nlohmann/json.hpp)
  target_compile_definitions(${target} INTERFACE CAUSEWAY_HAS_JSON)
endfunction()

# By hand rather than by dnnl-config.cmake: Debian's asks for OpenCL headers that nobody needs here.
function(causeway_find_onednn)
  set(causeway_onednn_HINT "oneDNN 2.6 or later (Debian: libdnnl-dev)" PARENT_SCOPE)
  find_path(causeway_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(causeway_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(causeway_ONEDNN_INCLUDE_DIR causeway_ONEDNN_LIBRARY)
  if(NOT causeway_ONEDNN_INCLUDE_DIR OR NOT causeway_ONEDNN_LIBRARY)
    return()
  endif()
  causeway_new_component(onednn)
  target_include_directories(${target} SYSTEM INTERFACE "${causeway_ONEDNN_INCLUDE_DIR}")
  target_compile_definitions(${target} INTERFACE CAUSEWAY_HAS_ONEDNN)
  target_link_libraries(${target} INTERFACE "${causeway_ONEDNN_LIBRARY}")
endfunction()

# Each OpenBLAS flavour keeps its own cblas.h; the flavour is whatever libopenblas.so stands for on this machine.
function(causeway_find_blas)
  set(causeway_blas_HINT "OpenBLAS (Debian: libopenblas-openmp-dev)" PARENT_SCOPE)
  find_library(causeway_BLAS_LIBRARY openblas)
  find_path(causeway_BLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-openmp openblas-pthread openblas-serial openblas)
  mark_as_advanced(causeway_BLAS_LIBRARY causeway_BLAS_INCLUDE_DIR)
  if(NOT causeway_BLAS_LIBRARY OR NOT causeway_BLAS_INCLUDE_DIR)
    return()
  endif()
  causeway_new_component(blas)
  target_include_directories(${target} SYSTEM INTERFACE "${causeway_BLAS_INCLUDE_DIR}")
  target_compile_definitions(${target} INTERFACE CAUSEWAY_HAS_CBLAS)
  target_link_libraries(${target} INTERFACE "${causeway_BLAS_LIBRARY}")
endfunction()

# The C interface alone. The launcher is no matter of who links.
function(causeway_find_mpi)
  set(causeway_mpi_HINT "Open MPI or MPICH (Debian: libopenmpi-dev or libmpich-dev)" PARENT_SCOPE)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CXX" IN_LIST languages)
    return()
  endif()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    return()
  endif()
  causeway_new_component(mpi)
  target_include_directories(${target} SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
  target_compile_definitions(${target} INTERFACE CAUSEWAY_HAS_MPI)
  target_link_libraries(${target} INTERFACE ${MPI_CXX_LIBRARIES})
endfunction()

# Constexpr functions of the standard library (std::bit_cast) are used in device code. CMake 3.25 does not know that nvcc speaks
# C++20 and drops a request for it without a word, so it is an option here. Keep network headers out of .cu files: asio 1.22
# does not compile under nvcc.
function(causeway_find_cuda)
  set(causeway_cuda_HINT "the language CUDA, as in project(NAME LANGUAGES CXX CUDA), and the CUDA toolkit 12 or later" PARENT_SCOPE)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CUDA" IN_LIST languages)
    return()
  endif()
  find_package(CUDAToolkit 12 QUIET)
  if(NOT CUDAToolkit_FOUND)
    return()
  endif()
  causeway_new_component(cuda)
  target_link_libraries(${target} INTERFACE CUDA::cudart)
  target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-std=c++20>")
endfunction()

# Apart, because cuBLASLt takes half a gigabyte on every machine that the program runs on.
function(causeway_find_cublaslt)
  causeway_find_component(cuda)
  set(causeway_cublaslt_HINT "what cuda needs, and cuBLASLt (NVIDIA: libcublas-dev-13-0, or of your toolkit's version)" PARENT_SCOPE)
  if(NOT TARGET causeway::cuda OR NOT TARGET CUDA::cublasLt)
    return()
  endif()
  causeway_new_component(cublaslt)
  target_link_libraries(${target} INTERFACE causeway::cuda CUDA::cublasLt)
endfunction()

# Also where the CUDA toolkit lies; the toolkit itself is not asked for, since NCCL's users link it anyway.
function(causeway_find_nccl)
  set(causeway_nccl_HINT "NCCL 2.14 or later, beside the CUDA toolkit (Debian: libnccl-dev)" PARENT_SCOPE)
  set(causeway_toolkit "${CUDAToolkit_ROOT}" "$ENV{CUDA_HOME}" /usr/local/cuda)
  find_path(causeway_NCCL_INCLUDE_DIR nccl.h HINTS ${causeway_toolkit} PATH_SUFFIXES include)
  find_library(causeway_NCCL_LIBRARY nccl HINTS ${causeway_toolkit} PATH_SUFFIXES lib64 lib)
  mark_as_advanced(causeway_NCCL_INCLUDE_DIR causeway_NCCL_LIBRARY)
  if(NOT causeway_NCCL_INCLUDE_DIR OR NOT causeway_NCCL_LIBRARY)
    return()
  endif()
  causeway_new_component(nccl)
  target_include_directories(${target} SYSTEM INTERFACE "${causeway_NCCL_INCLUDE_DIR}")
  target_link_libraries(${target} INTERFACE "${causeway_NCCL_LIBRARY}")
endfunction()

# A static library in the build tree of whoever asks for it: it is made of headers, and must be compiled as what includes them is.
# Has what needs asio, cereal or nlohmann-json where these are found.
function(causeway_find_compiled)
  set(causeway_compiled_HINT "a project with the language CXX, and the tree of headers rather than a single one" PARENT_SCOPE)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CXX" IN_LIST languages)
    return()
  endif()
  get_target_property(folders causeway::causeway HEADER_DIRS)
  get_target_property(installed causeway::causeway INTERFACE_INCLUDE_DIRECTORIES)
  find_file(bodies causeway/impl/src.hpp PATHS ${folders} ${installed} NO_DEFAULT_PATH NO_CACHE)
  if(NOT bodies)  # a single header has its own way
    return()
  endif()
  file(STRINGS "${bodies}" parts REGEX "#define CAUSEWAY_PARTS")
  string(REGEX REPLACE "[^0-9]" "" parts "${parts}")
  set(sources "")
  # Folders that a build leaves out because nothing there needs them, where each costs a minute (presets asan and tsan).
  set(left_out ${CAUSEWAY_COMPILED_WITHOUT})
  foreach(folder IN LISTS left_out)
    file(STRINGS "${bodies}" lines REGEX "CAUSEWAY_PART == |/${folder}/impl/")
    if("${lines}" MATCHES "== ([0-9]+);#include <causeway/${folder}/")
      list(APPEND left_out "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  foreach(part RANGE 1 ${parts})
    if(part IN_LIST left_out)
      continue()
    endif()
    set(source "${CMAKE_CURRENT_BINARY_DIR}/causeway_compiled/part_${part}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#define CAUSEWAY_PART ${part}\n#include <causeway/impl/src.hpp>\n")
    list(APPEND sources "${source}")
  endforeach()
  add_library(causeway_compiled STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(causeway::compiled ALIAS causeway_compiled)
  target_compile_definitions(causeway_compiled PUBLIC CAUSEWAY_COMPILED)
  target_link_libraries(causeway_compiled PUBLIC causeway::causeway)
  foreach(door IN ITEMS asio cereal json)
    causeway_find_component(${door})
    if(TARGET causeway::${door})
      target_link_libraries(causeway_compiled PRIVATE causeway::${door})
    endif()
  endforeach()

  # Bodies that call MPI: taken out of the library by who links causeway::mpi, so that nobody else needs libmpi.
  causeway_find_component(mpi)
  if(TARGET causeway::mpi AND NOT "mpi" IN_LIST left_out)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/causeway_compiled/mpi.cpp")
    set(text "")
    foreach(name IN ITEMS net/impl/mpi_world net/impl/mpi_engine net/impl/mpi_transport collective/impl/mpi_sums collective/impl/mpi_site)
      string(APPEND text "#include <causeway/${name}.ipp>\n")
    endforeach()
    file(CONFIGURE OUTPUT "${source}" CONTENT "${text}")
    add_library(causeway_compiled_mpi OBJECT EXCLUDE_FROM_ALL "${source}")
    target_compile_definitions(causeway_compiled_mpi PRIVATE CAUSEWAY_COMPILED)
    target_link_libraries(causeway_compiled_mpi PRIVATE causeway::mpi)
    target_sources(causeway_compiled PRIVATE $<TARGET_OBJECTS:causeway_compiled_mpi>)
  endif()
endfunction()

macro(causeway_find_component component)
  if(NOT TARGET causeway::${component})
    cmake_language(CALL causeway_find_${component})
  endif()
  set(causeway_${component}_FOUND FALSE)
  if(TARGET causeway::${component})
    set(causeway_${component}_FOUND TRUE)
  endif()
endmacro()
