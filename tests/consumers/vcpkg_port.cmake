# SPDX-License-Identifier: Apache-2.0
# Runs the port of vcpkg without vcpkg: cmake -DPORT= -DFOLDER= -DGENERATOR= -DCOMPILER= -P vcpkg_port.cmake
# The functions have the names and arguments of vcpkg's, and do the part of them that a port of headers needs.
file(REMOVE_RECURSE "${FOLDER}")
set(CURRENT_PORT_DIR "${PORT}")
set(CURRENT_PACKAGES_DIR "${FOLDER}/packages")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${FOLDER}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
      ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${FOLDER}/build")
  run("${CMAKE_COMMAND}" --install "${FOLDER}/build" --prefix "${CURRENT_PACKAGES_DIR}")
endfunction()

function(vcpkg_cmake_config_fixup) # moves CONFIG_PATH to share/<port>, one folder nearer to the prefix, and says so there
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*Config.cmake")
  if(NOT files)
    message(FATAL_ERROR "${arg_CONFIG_PATH} has no CMake package")
  endif()
  file(RENAME "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}" "${CURRENT_PACKAGES_DIR}/share/causeway")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/cmake")
  set(up [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)]])
  file(READ "${CURRENT_PACKAGES_DIR}/share/causeway/causewayTargets.cmake" text)
  string(REPLACE "${up}\n${up}\n" "${up}\n" text "${text}")
  file(WRITE "${CURRENT_PACKAGES_DIR}/share/causeway/causewayTargets.cmake" "${text}")
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/pkgconfig/causeway.pc")
    message(FATAL_ERROR "no pkg-config file")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(COPY ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/causeway")
endfunction()

include("${PORT}/portfile.cmake")
file(GLOB others "${CURRENT_PACKAGES_DIR}/*")
list(TRANSFORM others REPLACE ".*/" "")
if(NOT others STREQUAL "include;share")
  message(FATAL_ERROR "a port of headers has include and share, and not: ${others}")
endif()
file(READ "${PORT}/vcpkg.json" manifest)
string(JSON version GET "${manifest}" version)
file(STRINGS "${CURRENT_PACKAGES_DIR}/include/causeway/config/version.hpp" said REGEX "VERSION_STRING \"${version}\"")
if(NOT said)
  message(FATAL_ERROR "the port's version is ${version}, and the header's is another one")
endif()
