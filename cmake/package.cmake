# SPDX-License-Identifier: Apache-2.0
# Debian packages by CPack: `causeway`, the program, and `libcauseway-dev`, the headers. tools/package.sh builds both.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME causeway)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains one transformer on many machines joined by slow links")
set(CPACK_PACKAGE_VENDOR "The Causeway authors")
set(CPACK_PACKAGE_CONTACT "The Causeway authors <causeway@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests and examples need not be built to make a package

set(CPACK_COMPONENTS_ALL development)
if(TARGET causeway_program)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME causeway)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)  # what the program is linked with; needs dpkg-dev
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Peers on home connections, in clouds or on different continents train one model together: they talk seldom, send little,
and may come, go and die. This is the program.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcauseway-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS
    "libasio-dev, libcereal-dev, nlohmann-json3-dev, libdnnl-dev, libopenblas-dev, causeway")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "A C++20 library of headers, with its CMake package and pkg-config file. It needs a compiler; TCP, checkpoints and others
appear where their libraries are.")
include(CPack)
