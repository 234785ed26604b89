# SPDX-License-Identifier: Apache-2.0
# Warnings for our own tests, benchmarks and examples; never for a user of the library.

function(causeway_warnings target)
  target_compile_options(
    ${target}
    PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-Werror>"
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>")
endfunction()
