#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The skeletons of tools/new_policy.py compile without a warning, header alone and test alike. usage: test_new_policy.py CXX"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]


def main():
    compiler = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("include", "tools", "tests/support"):
            shutil.copytree(ROOT / part, copy / part)
        for kind in ("comm", "parallel", "fault"):
            subprocess.run([sys.executable, copy / "tools/new_policy.py", kind, "made_for_a_test"], check=True)
            again = subprocess.run([sys.executable, copy / "tools/new_policy.py", kind, "made_for_a_test"], check=False,
                                   capture_output=True, text=True)
            assert again.returncode != 0 and "exists" in again.stderr, "a second run must overwrite nothing"
            header = f"include/causeway/{kind}/made_for_a_test.hpp"
            for source in (["-x", "c++", header], [f"tests/{kind}/made_for_a_test.cpp"]):
                subprocess.run([compiler, *FLAGS, "-Iinclude", "-Itests", *source], cwd=copy, check=True)
            (copy / "docs/policies/made_for_a_test.md").unlink()  # the same name serves the next kind


if __name__ == "__main__":
    main()
