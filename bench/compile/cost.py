#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to include the library: a table of the tiers and of a whole program, beside `#include <asio.hpp>`.

    bench/compile/cost.py                    seconds and memory, too: medians of --repeat rounds, one compiler at a time
    bench/compile/cost.py --check            lines and instantiations only, against budgets; ends with 1 where one is exceeded

Lines are what the preprocessor leaves, instantiations what clang counts as specialisations of class templates: neither depends on
the machine. Seconds do, so they are given as a multiple of asio's in the same run, too.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Thousands of lines, and of instantiations: a tenth above what was measured last. Whoever makes it cheaper lowers them.
BUDGETS = {
    "train.hpp": (162, 41),
    "tcp.hpp": (179, 36),
    "elastic.hpp": (147, 54),
    "pipelines.hpp": (154, 61),
    "presets.hpp": (163, 96),
    "sim.hpp": (87, 23),
    "plan.hpp": (81, 22),
    "causeway.hpp": (239, 175),
}


def flags(*more):
    return ["-std=c++20", f"-I{ROOT / 'include'}", "-DASIO_STANDALONE", *more]


def lines_of(compiler, source):
    text = subprocess.run([compiler, *flags("-E", "-P"), source], capture_output=True, text=True, check=True).stdout
    return sum(1 for line in text.splitlines() if line.strip())


def instantiations_of(clang, source):
    run = subprocess.run([clang, *flags("-fsyntax-only", "-Xclang", "-print-stats"), source], capture_output=True, text=True)
    found = re.search(r"(\d+) ClassTemplateSpecialization decls", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{clang} {source}: {run.stderr[-2000:]}")
    return int(found[1])


def cost_of(compiler, source, optimised, folder):
    """Seconds of processor time and GB of a compilation."""
    child = subprocess.Popen([compiler, *flags("-O2" if optimised else "-O0", "-c", "-o", f"{folder}/object.o"), source])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{compiler} does not compile {source}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def sources_in(folder):
    """(what, file, optimised)"""
    def empty(name, include):
        path = Path(folder) / name
        path.write_text(f"#include <{include}>\nint main() {{}}\n", encoding="utf-8")
        return str(path)

    found = [("asio.hpp", empty("asio.cpp", "asio.hpp"), False)]
    found += [(tier, empty(tier + ".cpp", "causeway/" + tier), False) for tier in BUDGETS]
    return found + [("examples/train_gpt.cpp, -O2", str(ROOT / "examples/train_gpt.cpp"), True)]


def over_budget(what, lines, instantiations):
    limits = BUDGETS.get(what, (None, None))
    return [f"{what}: {have} {kind}, budget {limit}000" for have, limit, kind in
            [(lines, limits[0], "lines"), (instantiations, limits[1], "instantiations")]
            if limit is not None and have is not None and have > 1000 * limit]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--clang", default=shutil.which("clang++-14") or shutil.which("clang++"), help="counts instantiations")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        sources = [s for s in sources_in(folder) if not options.check or s[0] in BUDGETS]
        costs = {what: [] for what, _, _ in sources}
        for _ in range(0 if options.check else options.repeat):  # alternating, so that all meet the same noise
            for what, source, optimised in sources:
                costs[what].append(cost_of(options.compiler, source, optimised, folder))
        base = statistics.median(seconds for seconds, _ in costs["asio.hpp"]) if not options.check else None
        print("| what | lines | instantiations | seconds | of asio's | GB |\n|---|---|---|---|---|---|")
        for what, source, _ in sources:
            lines = lines_of(options.compiler, source)
            count = instantiations_of(options.clang, source) if options.clang else None
            findings += over_budget(what, lines, count)
            timed = "| | | |"
            if costs[what]:
                seconds, memory = (statistics.median(c[i] for c in costs[what]) for i in (0, 1))
                timed = f"| {seconds:.1f} | {seconds / base:.1f} | {memory:.2f} |"
            print(f"| {what} | {lines} | {count if count is not None else 'no clang'} {timed}", flush=True)
    for finding in findings:
        print(f"error: {finding}; see docs/design/compile_time.md", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
