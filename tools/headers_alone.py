#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each header of the library alone, so that none lives on what others happen to include before it.

    tools/headers_alone.py [--compiler CXX] [--jobs N] [HEADER...]     HEADER: such as causeway/core/rng.hpp; none: all

Without HEADER, headers are put into chains: each next one includes, itself or through others, all that came before. So it
finds nothing there but what it includes anyway, and one compilation checks the chain. Nothing is generated; it takes minutes.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from source_tree import INCLUDE, doors_of, headers

LIBRARIES = {"asio": "asio.hpp", "cereal": "cereal/cereal.hpp", "json": "nlohmann/json.hpp", "onednn": "oneapi/dnnl/dnnl.hpp", "blas": "cblas.h", "mpi": "mpi.h"}


def closures(sources):
    """For each header all that it includes, itself or through others."""
    known = {}

    def closure(name):
        if name not in known:
            direct = [i.target for i in sources[name].includes if i.target in sources]
            known[name] = set(direct).union(*map(closure, direct))
        return known[name]

    return {name: closure(name) for name in sources}


def chains(names, includes):
    """As few chains as there can be: every header is matched with one that includes it, along augmenting paths. Those that include
    most come first: what is matched stays so, and what is not is the end of a chain, which costs all that it includes."""
    above = {name: [other for other in names if name in includes[other]] for name in names}
    below_of, above_of = {}, {}

    def match(name, tried):
        for other in above[name]:
            if other not in tried:
                tried.add(other)
                if other not in below_of or match(below_of[other], tried):
                    below_of[other], above_of[name] = name, other
                    return True
        return False

    for name in sorted(names, key=lambda name: -len(includes[name])):
        match(name, set())
    for first in (name for name in names if name not in below_of):
        chain = [first]
        while chain[-1] in above_of:
            chain.append(above_of[chain[-1]])
        yield chain


@lru_cache(maxsize=None)
def mpi_folders():
    """Where MPI's headers lie, as its own compiler says: that is no folder that others look into. Open MPI or MPICH, whichever is there."""
    for wrapper in filter(shutil.which, ("mpicxx", "mpicxx.openmpi", "mpicxx.mpich")):
        shown = subprocess.run([wrapper, "-show"], capture_output=True, text=True)
        folders = [word[2:] for word in shlex.split(shown.stdout) if word.startswith("-I")] if shown.returncode == 0 else []
        if any(os.path.exists(os.path.join(folder, LIBRARIES["mpi"])) for folder in folders):
            return folders
    return []


def compile_errors(compiler, text):
    done = subprocess.run([compiler, "-x", "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DASIO_STANDALONE", f"-I{INCLUDE}",
                           *(word for folder in mpi_folders() for word in ("-isystem", folder)), "-"], input=text, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def not_installed(compiler):
    """The doors whose library the compiler does not find."""
    return {door for door, library in LIBRARIES.items()
            if compile_errors(compiler, f"#if !__has_include(<{library}>)\n#error\n#endif\n")}


def named(wanted, sources):
    unknown = [name for name in wanted if name not in sources]
    if unknown:
        sys.exit(f"error: no header {unknown[0]} under {INCLUDE}; write it as in #include <...>")
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("headers", nargs="*")
    options = parser.parse_args()

    if not shutil.which(options.compiler):
        sys.exit(f"error: no compiler {options.compiler}; name one that is installed with --compiler")

    sys.setrecursionlimit(10000)
    sources = headers()
    wanted = named(options.headers, sources) or [name for name in sources if name.endswith(".hpp")]  # others are nvcc's
    absent, known = not_installed(options.compiler), {}
    names = [name for name in wanted if not doors_of(name, sources, known) & absent]
    for name in sorted(set(wanted) - set(names)):
        print(f"left out: {name}, whose library is not installed")
    todo = [[name] for name in names] if options.headers else list(chains(names, closures(sources)))
    texts = ["".join(f"#include <{name}>\n" for name in chain) for chain in todo]
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        errors = list(pool.map(lambda text: compile_errors(options.compiler, text), texts))
    for chain, error in zip(todo, errors):
        if error:
            print(f"error: does not compile alone: one of {', '.join(chain)}\n{error}", file=sys.stderr)
    print(f"{sum(map(len, todo))} headers in {len(todo)} compilations: {sum(map(bool, errors))} failed")
    return 1 if any(errors) else 0


if __name__ == "__main__":
    sys.exit(main())
