#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a source file fails to compile with exactly one error, which names what the file expects.

usage: expect_compile_error.py FILE -- COMPILER [OPTION...]

The first line of FILE is `// expect: TEXT`, for instance `// expect: causeway-C1`. So that a file cannot fail for another
reason than its own, whatever stands between `#ifdef EXPECT_ERROR` and `#endif` is where the mistake may be put: where a file
has such a part, it must compile without it.
"""

import re
import subprocess
import sys


def compile_file(command, path):
    run = subprocess.run(command + ["-fsyntax-only", path], capture_output=True, text=True, check=False)
    errors = [line for line in run.stderr.splitlines() if re.search(r"\berror: ", line)]
    return run, errors


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    path, command = sys.argv[1], sys.argv[3:]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    expected = re.match(r"// expect: (\S.*)\n", text)
    if not expected:
        sys.exit(f"{path}: the first line must be `// expect: <what the error says>`")

    if "#ifdef EXPECT_ERROR" in text:
        run, _ = compile_file(command, path)
        if run.returncode != 0:
            sys.exit(f"{path}: does not compile even without its mistake\n{run.stderr}")

    run, errors = compile_file(command + ["-DEXPECT_ERROR"], path)
    if run.returncode == 0:
        sys.exit(f"{path}: compiles, but should fail with {expected[1]}")
    if len(errors) != 1 or expected[1] not in errors[0]:
        sys.exit(f"{path}: expected exactly one error that contains {expected[1]}, got {len(errors)}:\n{run.stderr}")
    print(errors[0])


if __name__ == "__main__":
    main()
