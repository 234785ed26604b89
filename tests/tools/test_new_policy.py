#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The skeletons of tools/new_policy.py compile without a warning, header alone and test alike. usage: test_new_policy.py CXX"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-DCAUSEWAY_COMPILED", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]


def main():
    command = [sys.argv[1], *FLAGS, "-Iinclude", "-Itests"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("include", "tools", "tests/support"):
            shutil.copytree(ROOT / part, copy / part)
        kinds = ("comm", "parallel", "fault")
        for kind in kinds:
            make = [sys.executable, copy / "tools/new_policy.py", kind, "made_for_a_test"]
            subprocess.run(make, check=True)
            again = subprocess.run(make, check=False, capture_output=True, text=True)
            assert again.returncode != 0 and "exists" in again.stderr, "a second run must overwrite nothing"
            (copy / "docs/policies/made_for_a_test.md").unlink()  # the same name serves the next kind
            subprocess.run([*command, "-x", "c++", f"include/causeway/{kind}/made_for_a_test.hpp"], cwd=copy, check=True)

        # The tests in one unit: the trainer is what takes the time.
        together = copy / "together.cpp"
        together.write_text("".join(f'#include "tests/{kind}/made_for_a_test.cpp"\n' for kind in kinds))
        subprocess.run([*command, together], cwd=copy, check=True)


if __name__ == "__main__":
    main()
