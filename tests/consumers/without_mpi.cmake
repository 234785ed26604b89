# SPDX-License-Identifier: Apache-2.0
# Configures our own tree as on a machine without MPI: cmake -DSOURCE=... -DGENERATOR=... -DCOMPILER=... -DFOLDER=... -P this

file(REMOVE_RECURSE "${FOLDER}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${FOLDER}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
          -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCAUSEWAY_USE_COMPILED=ON -DCAUSEWAY_BUILD_BENCH=ON
          -DCAUSEWAY_BUILD_TESTS=OFF
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "does not configure without MPI:\n${said}")
endif()
if(NOT said MATCHES "causeway::mpi left out: needs Open MPI or MPICH \\(Debian: libopenmpi-dev or libmpich-dev\\)")
  message(FATAL_ERROR "does not say what is left out, and what it needs:\n${said}")
endif()
file(READ "${FOLDER}/compile_commands.json" commands)
if(NOT said MATCHES "The program `causeway` is left out" AND NOT commands MATCHES "causeway/main\\.cpp")
  message(FATAL_ERROR "the program is not built without MPI")
endif()
foreach(needs_mpi IN ITEMS CAUSEWAY_HAS_MPI causeway_compiled/mpi\\.cpp bench/comm/mpi_)
  if(commands MATCHES "${needs_mpi}")
    message(FATAL_ERROR "${needs_mpi} is built without MPI")
  endif()
endforeach()
