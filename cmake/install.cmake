# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, in two components: `development` (headers, the CMake package, the pkg-config file) and
# `program` (the program `causeway` with its manual page, completion and documentation).

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder "${CMAKE_INSTALL_DATADIR}/cmake/causeway") # nothing here depends on the architecture
install(TARGETS causeway EXPORT causewayTargets
        FILE_SET HEADERS COMPONENT development
        FILE_SET cuda_headers COMPONENT development)
install(EXPORT causewayTargets NAMESPACE causeway:: DESTINATION "${package_folder}" COMPONENT development)

configure_package_config_file(cmake/causewayConfig.cmake.in causewayConfig.cmake INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file(causewayConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causewayConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/causewayConfigVersion.cmake"
              cmake/causewayComponents.cmake cmake/FindAsio.cmake
        DESTINATION "${package_folder}" COMPONENT development)

# The pkg-config file finds its prefix from where it lies, so that the installed tree can be moved.
file(RELATIVE_PATH PC_UP "/prefix/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/prefix")
set(PC_PREFIX "\${pcfiledir}/${PC_UP}")
configure_file(cmake/causeway.pc.in causeway.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causeway.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig" COMPONENT development)
# Two packages may not have one file.
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libcauseway-dev" COMPONENT development)

# Whoever wants only the headers builds nothing: a program that was not built is left out.
if(TARGET causeway_program)
  install(TARGETS causeway_program DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program OPTIONAL)
  install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg"
          PATTERN site EXCLUDE)
  install(FILES LICENSE NOTICE README.md CHANGELOG.md examples/quickstart.toml DESTINATION "${CMAKE_INSTALL_DOCDIR}"
          COMPONENT program)
  install(FILES "${PROJECT_BINARY_DIR}/pages/causeway" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT program
          OPTIONAL)
  install(FILES "${PROJECT_BINARY_DIR}/pages/causeway.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program OPTIONAL)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
