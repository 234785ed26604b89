#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What part of their time peers on slow lines wait for each other: one run for each communication policy, as a table.

Every peer is a real process on a line of --mbit in both directions (bench/support/slow_lines.py). A step computes little, and then waits for --pause
seconds, as for a device that this machine does not have; so few cores are enough, and what is measured is the lines. Needs root, ip and tc.

usage: exposed.py PATH_OF_CAUSEWAY [--members 4] [--rounds 6] [--mbit 100] [--pause 0.4] [--policies NAME ...]

For each policy: its commits, what a peer sends in a second, and the share of its time that it waited for exchanges (the mean of all
peers, and the most), without the first third of its rounds and the last one, at whose end nothing can overlap. A name may have settings
of its own behind it: "diloco --comm.codec int8".
"""
import argparse, json, os, statistics, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from slow_lines import Lab, check_machine

# 8.5 million parameters: 34 MB in f32.
MODEL = ["--model.layers", "10", "--model.width", "264", "--model.heads", "4", "--model.context", "16", "--data.tokenizer", "bytes",
         "--train.batch", "1", "--train.evaluate_every", "0", "--train.checkpoint_every", "0"]
POLICIES = ["every_step", "diloco", "open_diloco", "diloco --comm.codec int8", "streaming_diloco", "eager_diloco", "cocktail_sgd", "sparse_loco"]


def records(machine):
    """Of the peer of this machine, one for each round."""
    found = []
    for folder, _, files in os.walk(machine.folder):
        if "metrics.jsonl" in files:
            with open(os.path.join(folder, "metrics.jsonl")) as f:
                found += [json.loads(line) for line in f if line.endswith("}\n")]
    return [r for r in found if r["kind"] == "round"]


def share_waited(policy, args, folder):
    name, *settings = policy.split()
    lab = Lab(args, folder)
    steps = args.rounds * args.local_steps if name != "every_step" else args.rounds
    try:
        local = [] if name == "every_step" else ["--comm.local_steps", str(args.local_steps)]
        lab.found_run(args.members, ["--steps", str(steps), "--comm.policy", name, *local, *MODEL, *settings])
        for machine in lab.machines:
            machine.process.wait()
            if machine.process.returncode != 0:
                raise SystemExit(f"{policy}: {machine.said()[-2000:]}")
        return summed(policy, [records(m) for m in lab.machines])
    finally:
        lab.close()


def summed(policy, peers):
    shares, sent = [], []
    for rows in peers:
        first, last = rows[len(rows) // 3], rows[-2]
        seconds, blocked = last["ts"] - first["ts"], last["blocked_seconds"] - first["blocked_seconds"]
        shares.append(100 * blocked / seconds)
        sent.append((last["bytes_sent"] - first["bytes_sent"]) / seconds)
    print(f"| `{policy}` | {len(peers[0])} | {statistics.mean(sent) / 1e6:.2f} MB/s | {statistics.mean(shares):.1f} % | {max(shares):.1f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--local-steps", type=int, default=50)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--pause", type=float, default=0.4, help="seconds that a step waits after computing")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    args = parser.parse_args()
    check_machine()
    print("| policy | commits | sent by a peer | waited, mean | most |\n|---|---|---|---|---|", flush=True)
    for policy in args.policies:
        with tempfile.TemporaryDirectory() as box:
            share_waited(policy, args, box)
    return 0


if __name__ == "__main__":
    sys.exit(main())
