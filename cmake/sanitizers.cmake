# SPDX-License-Identifier: Apache-2.0
# CAUSEWAY_SANITIZE, a list such as "address;undefined" or "thread", for our own tests, benchmarks and examples.

function(causeway_sanitizers target)
  if(NOT CAUSEWAY_SANITIZE)
    return()
  endif()
  string(REPLACE ";" "," names "${CAUSEWAY_SANITIZE}")
  set(flags -fsanitize=${names} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  if("thread" IN_LIST CAUSEWAY_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -Wno-tsan)  # Asio uses fences, which GCC's thread sanitizer says it does not follow
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  target_link_options(${target} PRIVATE -fsanitize=${names})
endfunction()
