#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to include the library: a table of the tiers and of a whole program, beside `#include <asio.hpp>`. "Compiled" is with
CAUSEWAY_COMPILED: what is no template is in another object.

    bench/compile/cost.py                    seconds and memory, too: medians of --repeat rounds, one compiler at a time
    bench/compile/cost.py --torch DIR        also libtorch: an empty program with torch/torch.h, and a small one that trains;
                                             DIR is .../site-packages/torch/include of PyTorch of PyPI
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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Thousands of lines, and of instantiations, header-only and compiled: a tenth above what was measured last. Whoever makes it
# cheaper lowers them.
BUDGETS = {
    "train.hpp": ((162, 38), (119, 31)),
    "tcp.hpp": ((179, 28), (93, 14)),
    "elastic.hpp": ((147, 41), (98, 25)),
    "pipelines.hpp": ((154, 55), (106, 32)),
    "presets.hpp": ((165, 68), (116, 37)),
    "sim.hpp": ((87, 19), (84, 10)),
    "plan.hpp": ((81, 21), (77, 7)),
    "causeway.hpp": ((243, 121), (178, 62)),
}
TORCH_PROGRAM = """\
#include <torch/torch.h>

#include <iostream>

struct net_impl : torch::nn::Module {
  torch::nn::Linear a{nullptr}, b{nullptr};
  net_impl() {
    a = register_module("a", torch::nn::Linear(64, 128));
    b = register_module("b", torch::nn::Linear(128, 10));
  }
  torch::Tensor forward(torch::Tensor x) { return b(torch::gelu(a(x))); }
};

int main() {
  net_impl net;
  torch::optim::AdamW opt(net.parameters(), torch::optim::AdamWOptions(1e-3));
  for (int i = 0; i < 10; ++i) {
    auto x = torch::randn({8, 64});
    auto y = torch::randint(10, {8});
    auto loss = torch::nn::functional::cross_entropy(net.forward(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
    std::cout << loss.item<float>() << "\\n";
  }
}
"""
MODES = (("", ()), (", compiled", ("-DCAUSEWAY_COMPILED",)))


@dataclass(frozen=True)
class Compilation:
    what: str
    source: str
    options: tuple = ()
    budget: tuple = (None, None)

    def flags(self):
        return ["-std=c++20", f"-I{ROOT / 'include'}", "-DASIO_STANDALONE", *self.options]


def lines_of(compiler, c):
    text = subprocess.run([compiler, *c.flags(), "-E", "-P", c.source], capture_output=True, text=True, check=True).stdout
    return sum(1 for line in text.splitlines() if line.strip())


def instantiations_of(clang, c):
    run = subprocess.run([clang, *c.flags(), "-fsyntax-only", "-Xclang", "-print-stats", c.source], capture_output=True, text=True)
    found = re.search(r"(\d+) ClassTemplateSpecialization decls", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{clang} {c.source}: {run.stderr[-2000:]}")
    return int(found[1])


def cost_of(compiler, c, folder):
    """Seconds of processor time and GB of a compilation."""
    child = subprocess.Popen([compiler, *c.flags(), "-c", "-o", f"{folder}/object.o", c.source])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{compiler} does not compile {c.source}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def compilations(folder, torch):
    def written(name, text):
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def empty(include):
        return written(include.replace("/", "_") + ".cpp", f"#include <{include}>\nint main() {{}}\n")

    program = str(ROOT / "examples/02_two_peers.cpp")
    found = [Compilation("asio.hpp", empty("asio.hpp"))]
    if torch:
        headers = ("-w", f"-I{torch}", f"-I{torch}/torch/csrc/api/include")
        found.append(Compilation("torch/torch.h", empty("torch/torch.h"), headers))
        found.append(Compilation("libtorch training program, -O2", written("torch_program.cpp", TORCH_PROGRAM), ("-O2", *headers)))
    for mode, (name, options) in enumerate(MODES):
        found += [Compilation(tier + name, empty("causeway/" + tier), options, BUDGETS[tier][mode]) for tier in BUDGETS]
        found.append(Compilation("examples/02_two_peers.cpp, -O2" + name, program, ("-O2", *options)))
    return found


def over_budget(c, lines, instantiations):
    return [f"{c.what}: {have} {kind}, budget {limit}000" for have, limit, kind in
            [(lines, c.budget[0], "lines"), (instantiations, c.budget[1], "instantiations")]
            if limit is not None and have is not None and have > 1000 * limit]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--clang", default=shutil.which("clang++-14") or shutil.which("clang++"), help="counts instantiations")
    parser.add_argument("--torch", metavar="DIR", help="libtorch's headers")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        todo = [c for c in compilations(folder, options.torch) if not options.check or c.budget[0] is not None]
        costs = {c: [] for c in todo}
        for _ in range(0 if options.check else options.repeat):  # alternating, so that all meet the same noise
            for c in todo:
                costs[c].append(cost_of(options.compiler, c, folder))
        base = None if options.check else statistics.median(seconds for seconds, _ in costs[todo[0]])
        print("| what | lines | instantiations | seconds | of asio's | GB |\n|---|---|---|---|---|---|")
        for c in todo:
            lines = lines_of(options.compiler, c)
            count = instantiations_of(options.clang, c) if options.clang else None
            findings += over_budget(c, lines, count)
            timed = "| | | |"
            if costs[c]:
                seconds, memory = (statistics.median(cost[i] for cost in costs[c]) for i in (0, 1))
                timed = f"| {seconds:.1f} | {seconds / base:.1f} | {memory:.2f} |"
            print(f"| {c.what} | {lines} | {count if count is not None else 'no clang'} {timed}", flush=True)
    for finding in findings:
        print(f"error: {finding}; see docs/design/compile_time.md", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
