#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test files that are compiled together do not meet, and errors name the file and line. usage: test_batch_tests.py CXX"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/batch_tests.py"
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "c++"

HELPERS = """#include <vector>
namespace {{
int helper() {{ return {0}; }}
}}  // namespace
int value_{0}() {{ return helper(); }}
"""
REOPENS = """#include "beside.hpp"
namespace causeway::nn {
namespace {
int helper() { return inner(); }
}  // namespace
int value() { return helper(); }
}  // namespace causeway::nn
"""


class Batches(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)

    def write(self, **texts):
        (self.folder / "tests").mkdir(exist_ok=True)
        (self.folder / "tests/beside.hpp").write_text("namespace causeway::nn { inline int inner() { return 1; } }\n")
        for name, text in texts.items():
            (self.folder / f"tests/{name}.cpp").write_text(text)

    def batched(self, size, *names):
        command = [sys.executable, TOOL, self.folder / "out", str(size), *(f"tests/{n}.cpp" for n in names)]
        run = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return [Path(line) for line in run.stdout.splitlines()]

    def compile(self, path):
        return subprocess.run([COMPILER, "-std=c++20", "-Wall", "-fsyntax-only", path], cwd=self.folder, check=False,
                              capture_output=True, text=True)

    def test_helpers_of_the_same_name_do_not_meet(self):
        self.write(a=HELPERS.format(1), b=HELPERS.format(2), c=REOPENS)
        made = self.batched(8, "a", "b", "c")
        self.assertEqual([p.name for p in made], ["batch_0.cpp"])
        run = self.compile(made[0])
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_errors_name_the_file_and_line(self):
        self.write(a=HELPERS.format(1), b=REOPENS.replace("inner()", "nowhere()"))
        run = self.compile(self.batched(2, "a", "b")[0])
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("tests/b.cpp:4:", run.stderr)

    def test_what_needs_the_preprocessor_or_the_global_namespace_is_left_alone(self):
        self.write(a=HELPERS.format(1), b="#define X 1\n", c="template <>\nstruct std::hash<int*>;\n", d=HELPERS.format(4),
                   e="#include <new>\n[[gnu::noinline]] void* operator new(std::size_t n);\n", f=HELPERS.format(6),
                   g="namespace shared {\nint value;\n}\n", h="template class std::vector<int>;\n")
        made = self.batched(2, *"abcdefgh")
        self.assertEqual([p.name for p in made], [*(f"{name}.cpp" for name in "bcegh"), "batch_0.cpp", "batch_1.cpp"])

    def test_what_did_not_change_is_not_written_again(self):
        self.write(a=HELPERS.format(1), b=HELPERS.format(2))
        before = self.batched(1, "a", "b")[0].stat().st_mtime_ns
        self.assertEqual(self.batched(1, "a", "b")[0].stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
