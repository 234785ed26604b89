#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A header that lives on what others include is found, in a chain as by itself. usage: test_headers_alone.py CXX"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "c++"

FIRST = "#include <vector>\ninline std::vector<int> first() { return {}; }\n"
SECOND = "#include <causeway/core/first.hpp>\ninline auto second() { return first(); }\n"
BESIDE = "inline auto beside() { return first(); }\n"  # where is first()?


class HeadersAlone(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.root = Path(self.temporary.name)
        (self.root / "tools").mkdir()
        (self.root / "include/causeway/core").mkdir(parents=True)
        for name in ("headers_alone.py", "source_tree.py"):
            (self.root / "tools" / name).write_text((TOOLS / name).read_text())

    def write(self, **texts):
        for name, text in texts.items():
            guard = f"CAUSEWAY_CORE_{name.upper()}_HPP"
            (self.root / f"include/causeway/core/{name}.hpp").write_text(f"#ifndef {guard}\n#define {guard}\n{text}#endif\n")

    def run_tool(self, *arguments, **more):
        return subprocess.run([sys.executable, str(self.root / "tools/headers_alone.py"), "--compiler", COMPILER, *arguments],
                              capture_output=True, text=True, **more)

    def test_one_compilation_checks_a_chain(self):
        self.write(first=FIRST, second=SECOND)
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 headers in 1 compilations: 0 failed", done.stdout)

    def test_what_is_not_included_is_not_there(self):
        self.write(beside=BESIDE, first=FIRST, second=SECOND)
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("one of causeway/core/beside.hpp\n", done.stderr)
        self.assertNotIn("second", done.stderr)

    def test_a_standard_header_from_elsewhere_does_not_help(self):
        self.write(first="inline std::vector<int> first() { return {}; }\n", second="#include <vector>\n" + SECOND)
        self.assertEqual(self.run_tool().returncode, 1)

    def test_one_header_by_name(self):
        self.write(beside=BESIDE, first=FIRST)
        self.assertEqual(self.run_tool("causeway/core/first.hpp").returncode, 0)
        self.assertEqual(self.run_tool("causeway/core/beside.hpp").returncode, 1)
        missing = self.run_tool("core/first.hpp")
        self.assertIn("no header core/first.hpp", missing.stderr)

    def test_a_header_whose_library_is_not_installed_is_named_and_left_out(self):
        self.write(first=FIRST, door="#include <asio.hpp>\n")
        tool = self.root / "tools/headers_alone.py"
        tool.write_text(tool.read_text().replace('"asio": "asio.hpp"', '"asio": "no_such_library.hpp"'))
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out: causeway/core/door.hpp", done.stdout)
        self.assertIn("1 headers in 1 compilations: 0 failed", done.stdout)

    def test_mpi_is_where_its_own_compiler_says(self):
        self.write(job="#include <mpi.h>\ninline int job() { return of_this_mpi(); }\n", beside="inline int beside() { return of_this_mpi(); }\n")
        (self.root / "bin").mkdir()
        (self.root / "mpi include").mkdir()
        (self.root / "mpi include/mpi.h").write_text("inline int of_this_mpi() { return 1; }\n")
        wrapper = self.root / "bin/mpicxx"
        wrapper.write_text(f"#!/bin/sh\necho \"c++ '-I{self.root}/mpi include' -lmpi\"\n")
        wrapper.chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        done = self.run_tool("causeway/core/job.hpp", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 headers in 1 compilations: 0 failed", done.stdout)
        self.assertEqual(self.run_tool("causeway/core/beside.hpp", env=environment).returncode, 1)

    def test_a_compiler_that_is_not_there(self):
        self.write(first=FIRST)
        done = self.run_tool("--compiler", "no_such_compiler")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--compiler", done.stderr)


if __name__ == "__main__":
    unittest.main()
