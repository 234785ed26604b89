# SPDX-License-Identifier: Apache-2.0
"""Conan 2 recipe of the headers: `conan create cmake/conan` in a checkout. What optional parts need comes from ConanCenter:
`-o "causeway/*:asio=True"`, and likewise cereal and json."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load

OPTIONAL = {"asio": "asio/1.30.2", "cereal": "cereal/1.3.2", "json": "nlohmann_json/3.11.3"}


class Causeway(ConanFile):
    name = "causeway"
    license = "Apache-2.0"
    description = "Headers that train one transformer on many machines joined by slow links"
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {name: [True, False] for name in OPTIONAL}
    default_options = {name: False for name in OPTIONAL}
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "..", "..", "include", "causeway", "config", "version.hpp"))
        self.version = re.search(r'CAUSEWAY_VERSION_STRING "([0-9.]+)"', header).group(1)

    def export_sources(self):
        for pattern in ["CMakeLists.txt", "LICENSE", "NOTICE", "cmake/*", "include/*"]:
            copy(self, pattern, src=os.path.join(self.recipe_folder, "..", ".."), dst=self.export_sources_folder)

    def requirements(self):
        for name, reference in OPTIONAL.items():
            if self.options.get_safe(name):
                self.requires(reference, transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.settings.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ["TESTS", "BENCH", "EXAMPLES"]:
            toolchain.cache_variables[f"CAUSEWAY_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install(component="development")
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package's own CMake files know its components: Conan's generator would hide them.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/causeway"]
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        if self.settings.os == "Linux":
            self.cpp_info.system_libs = ["pthread"]
