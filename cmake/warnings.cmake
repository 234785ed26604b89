# SPDX-License-Identifier: Apache-2.0
# Warnings for our own tests, benchmarks and examples; never for a user of the library.

option(CAUSEWAY_WARNINGS_ARE_ERRORS "Off: for compilers that nobody here has tried" ON)

function(causeway_warnings target)
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
  if(CAUSEWAY_WARNINGS_ARE_ERRORS)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
                                             "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
endfunction()
