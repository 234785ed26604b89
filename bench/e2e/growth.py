#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How time and memory grow with a model's width, depth, context and vocabulary, and with the number of peers: one run, in
which all sizes take turns, written as docs/benchmarks-growth.md and its pictures.

    bench/e2e/growth.py build/release --rounds 3 --keep growth.json

Models: `bench_e2e_train_step` on one thread; time per token against the floating-point operations that a token needs, and
the most memory of the process against what the library's estimate says beforehand. Peers: `causeway simulate` without
faults (what a round costs on virtual time, and what simulating it costs here), and processes of `causeway train` on this
machine (bytes that a peer sends in a round, its memory, and processor time per inner step). --from draws from a file that
--keep has written.
"""

import argparse
import json
import math
import re
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench/support")]
from drawing import Picture  # noqa: E402
from measured_run import measured_run  # noqa: E402

BASE = {"layers": 4, "width": 256, "heads": 4, "context": 256, "vocabulary": 4096, "batch": 4}
SWEEPS = {
    "width": [{"width": w, "heads": w // 64} for w in (64, 128, 256, 512, 1024)],
    "layers": [{"layers": n} for n in (1, 2, 4, 8, 16, 32)],
    "context": [{"context": t, "batch": max(1, 8192 // t)} for t in (256, 512, 1024, 2048, 4096, 8192)],
    "vocabulary": [{"vocabulary": v} for v in (1024, 4096, 16384, 65536)],
}
WORDS = {"width": "width", "layers": "layers", "context": "tokens of context", "vocabulary": "words of the vocabulary"}
SIMULATED, REAL = (2, 4, 8, 16, 32, 64), (2, 4, 8, 16)


def run(command, **more):
    """(output, most memory in bytes, processor seconds) of a program that must succeed."""
    status, text, memory, cpu = measured_run(command, **more)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{text[-2000:]}")
    return text, memory, cpu


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        sys.exit(f"no {pattern!r} in:\n{text[-2000:]}")
    return float(found[1].replace(",", ""))


def model(programs, shape):
    shape = {**BASE, **shape}
    options = [word for key, value in shape.items() for word in (f"--{key}", value)]
    flops = 1e6 * number(r"([\d.]+) MFLOP/token", text := run([programs / "bench_e2e_train_step", *options, "--steps", 1])[0])
    steps = max(2, min(40, round(1.5e11 / (flops * shape["batch"] * shape["context"]))))
    text, memory, _ = run([programs / "bench_e2e_train_step", *options, "--steps", steps])
    return {"seconds": 1 / number(r"med ([\d.]+)", text), "flops": flops, "peak": number(r"of the peak ([\d.]+)", text) * 1e9, "memory": memory,
            "estimate": number(r"estimated memory ([\d.]+)", text) * 1e6, "parameters": number(r"params=(\d+)", text)}


def simulated(programs, peers):
    text, memory, cpu = run([programs / "causeway", "simulate", "--net.peers", peers, "--sim.faults", "none", "--sim.compute", "model", "--sim.step_seconds",
                             "1", "--comm.local_steps", "20", "--train.steps", "100"])
    return {"virtual": number(r"virtual time \(([\d.]+) s\)", text), "memory": memory, "cpu": cpu}


def real(programs, peers):
    steps = 40
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder, "book.txt")
        book.write_text("".join(f"{i} is followed by {i + 1}. " for i in range(40000)))
        _, memory, cpu = run([programs / "causeway", "train", "--data", book, "--data.tokenizer", "bytes", "--peers", peers, "--run.directory", folder, "--steps",
                               steps, "--comm.local_steps", 10, "--net.threads", 1, "--train.evaluate_every", 0, "--train.checkpoint_every", 0, "--batch-size", 2],
                              cwd=folder)
        records = [json.loads(line) for line in Path(folder, "causeway/peer-0/metrics.jsonl").read_text().splitlines()]
    sent = [r["bytes_sent"] for r in records if r.get("bytes_sent")]
    return {"sent": sent[-1] / (steps / 10), "memory": memory, "cpu": cpu / steps / peers}


def measure(programs, rounds):
    """Each point once a round, so that what else the machine does meets all of them."""
    kinds = {"simulated": (simulated, SIMULATED), "real": (real, REAL)}
    data = {name: [[] for _ in points] for name, points in [*SWEEPS.items(), *((k, v[1]) for k, v in kinds.items())]}
    for turn in range(rounds):
        for name, points in SWEEPS.items():
            for i, shape in enumerate(points):
                data[name][i].append(model(programs, shape))
        for name, (what, points) in kinds.items():
            for i, peers in enumerate(points):
                data[name][i].append(what(programs, peers))
        print(f"round {turn + 1} of {rounds} is done", file=sys.stderr)
    return {name: [{key: statistics.median(r[key] for r in runs) for key in runs[0]} for runs in points] for name, points in data.items()}


def scale(values):
    low, high = math.log(min(values)), math.log(max(values))
    return low - 0.08 * (high - low + 0.1), high + 0.08 * (high - low + 0.1)


def plot(title, below, x, lines):
    """Both axes logarithmic, so that a power is a straight line. `lines`: (name, look, values)."""
    p, left, top, width, height = Picture(380, 260), 52, 34, 310, 170
    (x0, x1), (y0, y1) = scale(x), scale([v for _, _, values in lines for v in values])
    at = lambda u, v: (left + width * (math.log(u) - x0) / (x1 - x0), top + height * (1 - (math.log(v) - y0) / (y1 - y0)))  # noqa: E731
    p.text(left + width / 2, 16, title, bold=True)
    p.box(left, top, width, height, "i", round_=0)
    for u in x:
        p.text(at(u, lines[0][2][0])[0], top + height + 16, f"{u:,}", "m", size=11)
    p.text(left + width / 2, top + height + 34, below, "m", size=12)
    for power in range(math.ceil(y0 / math.log(10)), math.floor(y1 / math.log(10)) + 1):
        y = at(x[0], 10.0**power)[1]
        p.line(left, y, left + width, y, "g")
        p.text(left - 4, y + 4, f"{10.0**power:g}", "m", "end", 11)
    for i, (name, look, values) in enumerate(lines):
        for (a, b), (c, d) in zip(zip(x, values), zip(x[1:], values[1:])):
            p.line(*at(a, b), *at(c, d), look, look == "k", 2)
        p.line(left + 12, top + 14 + 16 * i, left + 34, top + 14 + 16 * i, look, look == "k", 2)
        p.text(left + 40, top + 18 + 16 * i, name, "m", "start", 11)
    return p.svg()


def draw(data):
    images = ROOT / "docs/images"
    tables = []
    for name, points in SWEEPS.items():
        x, rows = [s[name] for s in points], data[name]
        seconds = [r["seconds"] * 1e6 for r in rows]
        ideal = [r["flops"] / r["peak"] * 1e6 for r in rows]
        memory, estimate = [r["memory"] / 1e6 for r in rows], [r["estimate"] / 1e6 for r in rows]
        (images / f"growth_{name}_time.svg").write_text(plot("microseconds per token", WORDS[name], x, [("measured", "w", seconds), ("at the peak of the machine", "k", ideal)]))
        (images / f"growth_{name}_memory.svg").write_text(plot("memory of the process, MB", WORDS[name], x, [("measured", "w", memory), ("the library's estimate", "k", estimate)]))
        lines = [f"| {WORDS[name]} | parameters | MFLOP per token | microseconds per token | share of the peak | memory, MB | estimated |", "|---|---|---|---|---|---|---|"]
        for u, r, s, i in zip(x, rows, seconds, ideal):
            lines.append(f"| {u:,} | {r['parameters'] / 1e6:.2f} M | {r['flops'] / 1e6:.1f} | {s:,.1f} | {100 * i / s:.0f} % | {r['memory'] / 1e6:,.0f} | {r['estimate'] / 1e6:,.0f} |")
        tables.append((f"### {WORDS[name].capitalize()}", [f"![Time over {WORDS[name]}](images/growth_{name}_time.svg) ![Memory over {WORDS[name]}](images/growth_{name}_memory.svg)"], lines))
    rows = data["simulated"]
    (images / "growth_peers_time.svg").write_text(plot("processor seconds of simulating 100 steps", "peers", SIMULATED, [("measured", "w", [r["cpu"] for r in rows])]))
    (images / "growth_peers_memory.svg").write_text(plot("memory of the simulation, MB", "peers", SIMULATED, [("measured", "w", [r["memory"] / 1e6 for r in rows])]))
    lines = ["| peers, simulated | virtual seconds | processor seconds | a peer | memory, MB |", "|---|---|---|---|---|"]
    lines += [f"| {n} | {r['virtual']:.1f} | {r['cpu']:.2f} | {r['cpu'] / n:.3f} | {r['memory'] / 1e6:.0f} |" for n, r in zip(SIMULATED, rows)]
    tables.append(("### Peers, simulated", ["![Time of a simulation over peers](images/growth_peers_time.svg) ![Its memory over peers](images/growth_peers_memory.svg)"], lines))
    lines = ["| peers, processes | bytes that one sends in a round | processor milliseconds of a step and peer | memory of the largest process, MB |", "|---|---|---|---|"]
    lines += [f"| {n} | {r['sent']:,.0f} | {1e3 * r['cpu']:.1f} | {r['memory'] / 1e6:.0f} |" for n, r in zip(REAL, data["real"])]
    tables.append(("### Peers, processes", [], lines))
    return "\n\n".join("\n".join([head, "", *sum(([p, ""] for p in pictures), []), *lines]) for head, pictures, lines in tables)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, nargs="?", help="a build folder with bench_e2e_train_step and causeway, optimised")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a file for what was measured")
    parser.add_argument("--from", dest="source", type=Path, help="draw from such a file instead of measuring")
    args = parser.parse_args()
    if not args.source and not args.build:
        parser.error("give the build folder, or --from FILE")
    data = json.loads(args.source.read_text()) if args.source else measure(args.build.resolve() / "bin", args.rounds)
    if args.keep:
        args.keep.write_text(json.dumps(data, indent=1))
    page = ROOT / "docs/benchmarks-growth.md"
    mark = "<!-- measured -->"
    page.write_text(page.read_text().split(mark)[0] + mark + "\n\n" + draw(data) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
