# SPDX-License-Identifier: Apache-2.0
# Stand-alone Asio, which ships no CMake package in Debian and most other places: just headers.
#   Asio_FOUND, Asio_VERSION, and the target asio::asio (headers, threads, ASIO_STANDALONE).

find_path(Asio_INCLUDE_DIR asio.hpp DOC "The folder that holds asio.hpp")
mark_as_advanced(Asio_INCLUDE_DIR)

if(Asio_INCLUDE_DIR AND EXISTS "${Asio_INCLUDE_DIR}/asio/version.hpp")
  file(STRINGS "${Asio_INCLUDE_DIR}/asio/version.hpp" line REGEX "#define ASIO_VERSION ")
  if(line MATCHES "ASIO_VERSION ([0-9]+)")
    math(EXPR major "${CMAKE_MATCH_1} / 100000")
    math(EXPR minor "${CMAKE_MATCH_1} / 100 % 1000")
    math(EXPR patch "${CMAKE_MATCH_1} % 100")
    set(Asio_VERSION "${major}.${minor}.${patch}")
  endif()
endif()

find_package(Threads QUIET)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Asio
  REQUIRED_VARS Asio_INCLUDE_DIR Threads_FOUND
  VERSION_VAR Asio_VERSION)

if(Asio_FOUND AND NOT TARGET asio::asio)
  add_library(asio::asio INTERFACE IMPORTED)
  target_include_directories(asio::asio INTERFACE "${Asio_INCLUDE_DIR}")
  target_compile_definitions(asio::asio INTERFACE ASIO_STANDALONE)
  target_link_libraries(asio::asio INTERFACE Threads::Threads)
endif()
