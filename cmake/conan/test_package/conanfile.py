# SPDX-License-Identifier: Apache-2.0
"""A project that uses the package as one does: find_package, a program, run it."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Consumer(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["EXPECTED_VERSION"] = str(self.dependencies["causeway"].ref.version)
        toolchain.cache_variables["causeway_DIR"] = os.path.join(
            self.dependencies["causeway"].package_folder, "share", "cmake", "causeway").replace("\\", "/")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "consumer"), env="conanrun")
