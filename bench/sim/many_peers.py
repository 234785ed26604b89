#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How runs of many peers end under faults: `causeway simulate` for each number of peers and each seed, as a table.

    bench/sim/many_peers.py build/release/bin/causeway --peers 64 128 256 --seeds 10

One row per number of peers: how many seeds came to their end, virtual seconds and goodput of live peers (least, mean), the
most memory, and the mean time that a simulation took. --each prints a row for each seed. Ends with 1 if a run is not through.
"""

import argparse
import os
import re
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from measured_run import measured_run


def simulate(program, peers, seed, args):
    """One run: (through, virtual seconds, goodput in per cent, rounds, GiB, seconds)."""
    command = [program, "simulate", "--net.peers", str(peers), "--run.seed", str(seed), "--sim.faults", args.faults,
               "--sim.compute", "model", "--sim.step_seconds", "1", "--comm.local_steps", "20",
               "--train.steps", str(args.steps)] + args.more
    begin = time.monotonic()
    status, text, memory, _ = measured_run(command)
    took = time.monotonic() - begin
    seconds = re.search(r"virtual time \(([\d.]+) s\)", text)
    goodput = re.search(r"goodput ([\d.]+) %", text)
    rounds = re.search(r"(\d+) rounds", text)
    if not (seconds and goodput and rounds):
        sys.exit(f"{' '.join(command)}:\n{text[-2000:]}")
    through = status == 0 and "trained to the end" in text
    return through, float(seconds[1]), float(goodput[1]), int(rounds[1]), memory / 2**30, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the command line program, built with optimisation")
    parser.add_argument("--peers", type=int, nargs="+", default=[64, 128, 200, 256, 512])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000007, help="the first seed")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--faults", default="harsh")
    parser.add_argument("--each", action="store_true", help="a row for each seed, too")
    parser.add_argument("more", nargs="*", help="further settings, behind --")
    args = parser.parse_args()
    print("| peers | through | virtual seconds | goodput of live peers: least, mean | rounds | memory | took |")
    print("|---|---|---|---|---|---|---|", flush=True)
    good = True
    for peers in args.peers:
        runs = []
        for seed in range(args.first, args.first + args.seeds):
            run = simulate(args.program, peers, seed, args)
            runs.append(run)
            if args.each:
                print(f"| {peers}, seed {seed} | {'yes' if run[0] else 'NO'} | {run[1]:.0f} | {run[2]:.1f} % | {run[3]} | "
                      f"{run[4]:.2f} GiB | {run[5]:.0f} s |", flush=True)
        through, seconds, goodput, rounds, memory, took = zip(*runs)
        good = good and all(through)
        print(f"| {peers} | {sum(through)} of {len(runs)} | {min(seconds):.0f} to {max(seconds):.0f} | "
              f"{min(goodput):.1f} %, {sum(goodput) / len(runs):.1f} % | {max(rounds)} | {max(memory):.2f} GiB | "
              f"{sum(took) / len(runs):.0f} s |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
