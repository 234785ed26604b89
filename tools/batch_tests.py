#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts test files together, so that what they all instantiate is compiled once for several of them.

    tools/batch_tests.py OUT SIZE FILE...

Writes OUT/batch_<n>.cpp of up to SIZE files each, in their order, and prints what to compile instead of the files, one
path a line. Each file gets a namespace of its own, so that their helpers do not meet; all #includes go before them, and
messages name the file itself, from the folder where this is called. Files that need the preprocessor, that specialise or
instantiate templates of others, or that define names for other files, are left alone.
"""

import os
import re
import sys

INCLUDE = re.compile(r'#include\s+[<"]')
BESIDE = re.compile(r'#include "([^"]+)"')
ALONE = re.compile(r'\s*#\s*(?!include)|template\s*<>|(extern )?template (class|struct)|extern "C"|.*\boperator (new|delete)\b'
                   r"|namespace (?!causeway\b)\w+(::\w+)* \{")
OPENS = re.compile(r"namespace (causeway(?:::\w+)*) \{$")
CLOSES = re.compile(r"\}  // namespace (causeway(?:::\w+)*)$")


def may_join(lines):
    return not any(ALONE.match(line) for line in lines)


def include_from(folder, path, line):
    """The line as it must be in another folder. Paths are relative, so that a compiler cache serves every checkout."""
    beside = BESIDE.match(line)
    found = beside and os.path.join(os.path.dirname(path), beside.group(1))
    return f'#include "{os.path.relpath(found, folder)}"' if found and os.path.exists(found) else line


def in_a_namespace(path, index, lines):
    """The file's text without its #includes; a namespace of ours that it reopens gets one within."""
    own = f"batch_{index}"
    out = [f"namespace {own} {{", f'#line 1 "{os.path.relpath(path)}"']
    for line in lines:
        if INCLUDE.match(line):
            line = ""
        elif OPENS.match(line):
            line = f"}} {line} namespace {own} {{ using namespace ::{own};"
        elif CLOSES.match(line):
            line = f"}} }} namespace {own} {{"
        out.append(line)
    return out + ["}"]


def write_if_other(path, text):
    if os.path.exists(path):
        with open(path) as f:
            if f.read() == text:
                return
    with open(path, "w") as f:
        f.write(text)


def batch(folder, paths, texts):
    includes = dict.fromkeys(include_from(folder, path, line) for path in paths for line in texts[path] if INCLUDE.match(line))
    body = [line for i, path in enumerate(paths) for line in in_a_namespace(path, i, texts[path])]
    return "\n".join([*includes, *body]) + "\n"


def main(folder, size, paths):
    texts = {}
    for path in paths:
        with open(path) as f:
            texts[path] = f.read().splitlines()
    joined = [path for path in paths if may_join(texts[path])]
    os.makedirs(folder, exist_ok=True)
    for path in paths:
        if path not in joined:
            print(path)
    for n, begin in enumerate(range(0, len(joined), size)):
        out = os.path.join(folder, f"batch_{n}.cpp")
        write_if_other(out, batch(folder, joined[begin:begin + size], texts))
        print(out)


if __name__ == "__main__":
    if len(sys.argv) < 4 or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), max(1, int(sys.argv[2])), [os.path.abspath(p) for p in sys.argv[3:]])
