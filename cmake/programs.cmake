# SPDX-License-Identifier: Apache-2.0
# What our tests, benchmarks and examples have in common.

include(${CMAKE_CURRENT_LIST_DIR}/warnings.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/sanitizers.cmake)

# Links the library, those of the named components that were found, and our warnings and sanitizers.
function(causeway_own_target target)
  target_link_libraries(${target} PRIVATE causeway::causeway)
  foreach(component IN LISTS ARGN)
    if(TARGET causeway::${component})
      target_link_libraries(${target} PRIVATE causeway::${component})
    endif()
  endforeach()
  if(CAUSEWAY_USE_SINGLE_HEADER)
    target_include_directories(${target} PRIVATE "${causeway_forward_folder}")
    foreach(door IN ITEMS asio)
      string(TOUPPER "CAUSEWAY_NO_${door}" without)
      if(NOT door IN_LIST ARGN)
        target_compile_definitions(${target} PRIVATE ${without})
      endif()
    endforeach()
  endif()
  if(CAUSEWAY_USE_COMPILED)
    target_link_libraries(${target} PRIVATE causeway::compiled)
  endif()
  causeway_compile_options(${target})
endfunction()

function(causeway_compile_options target)
  causeway_warnings(${target})
  causeway_sanitizers(${target})
  # GCC collects its own garbage from this many KiB on, not from 128 MiB: a tenth less time, at most a third more memory.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=500000>")
endfunction()

if(CAUSEWAY_USE_COMPILED)
  foreach(target IN ITEMS causeway_compiled causeway_compiled_mpi)
    if(TARGET ${target})
      causeway_compile_options(${target})
      target_compile_options(${target} PRIVATE ${CAUSEWAY_COMPILED_OPTIONS})
    endif()
  endforeach()
endif()

# The folders directly below `base`, in alphabetical order.
function(causeway_subfolders base out)
  file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE "${base}" "${base}/*")
  set(folders "")
  foreach(entry IN LISTS entries)
    if(IS_DIRECTORY "${base}/${entry}")
      list(APPEND folders "${entry}")
    endif()
  endforeach()
  set(${out} "${folders}" PARENT_SCOPE)
endfunction()

# With CAUSEWAY_USE_SINGLE_HEADER our own programs go on including <causeway/core/rng.hpp> and the like: each such name then
# stands for the single header, so that any test can be run on it.
if(CAUSEWAY_USE_SINGLE_HEADER)
  set(causeway_forward_folder "${CMAKE_CURRENT_BINARY_DIR}/forward")
  file(GLOB_RECURSE names CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/include/*.hpp")
  list(REMOVE_ITEM names causeway/causeway.hpp)
  foreach(name IN LISTS names)
    file(CONFIGURE OUTPUT "${causeway_forward_folder}/${name}" CONTENT "#include <causeway/causeway.hpp>\n")
  endforeach()
endif()
