# SPDX-License-Identifier: Apache-2.0
# Headers, the CMake package and the pkg-config file.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder "${CMAKE_INSTALL_DATADIR}/cmake/causeway") # nothing here depends on the architecture
install(TARGETS causeway EXPORT causewayTargets
        FILE_SET HEADERS
        FILE_SET cuda_headers)
install(EXPORT causewayTargets NAMESPACE causeway:: DESTINATION "${package_folder}")

configure_package_config_file(cmake/causewayConfig.cmake.in causewayConfig.cmake INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file(causewayConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causewayConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/causewayConfigVersion.cmake"
              cmake/causewayComponents.cmake cmake/FindAsio.cmake
        DESTINATION "${package_folder}")

# The pkg-config file finds its prefix from where it lies, so that the installed tree can be moved.
file(RELATIVE_PATH PC_UP "/prefix/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/prefix")
set(PC_PREFIX "\${pcfiledir}/${PC_UP}")
configure_file(cmake/causeway.pc.in causeway.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/causeway.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
