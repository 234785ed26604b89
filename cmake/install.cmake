# SPDX-License-Identifier: Apache-2.0
# Headers, the CMake package and the pkg-config file.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/causeway")
install(TARGETS causeway EXPORT causewayTargets
        FILE_SET HEADERS
        FILE_SET doors
        FILE_SET cuda_headers)
install(EXPORT causewayTargets NAMESPACE causeway:: DESTINATION "${package_folder}")

configure_package_config_file(cmake/causewayConfig.cmake.in causewayConfig.cmake INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file(causewayConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causewayConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/causewayConfigVersion.cmake"
              cmake/causewayComponents.cmake cmake/FindAsio.cmake
        DESTINATION "${package_folder}")

# An absolute CMAKE_INSTALL_INCLUDEDIR is allowed; a relative one hangs off the prefix, so that the tree can be moved.
set(PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/causeway.pc.in causeway.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causeway.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
