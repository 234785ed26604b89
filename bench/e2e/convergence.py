#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validation loss and bytes on the sockets of communication policies at equal tokens: trains the same small GPT with real
peers over TCP, once per policy and seed, and prints a table.
usage: convergence.py PATH_OF_CAUSEWAY TEXT [--seeds 3] [--peers 4] [--steps 1000] [--keep FOLDER]"""
import argparse, json, os, statistics, subprocess, sys, tempfile

MODEL = ["--model.layers", "3", "--model.width", "96", "--model.heads", "3", "--model.context", "128",
         "--data.vocabulary", "512", "--train.batch", "8", "--train.learning_rate", "3e-3", "--train.warmup", "50",
         "--train.evaluate_tokens", "65536", "--train.evaluate_every", "100", "--sample.tokens", "1"]
POLICIES = {
    "every_step": ["--comm.policy", "every_step"],
    "DiLoCo, H = 20, int8": ["--comm.policy", "diloco", "--comm.local_steps", "20", "--comm.codec", "int8"],
    "DiLoCo, H = 50": ["--comm.policy", "diloco", "--comm.local_steps", "50"],
    "local SGD, H = 20, int8": ["--comm.policy", "local_sgd", "--comm.local_steps", "20", "--comm.codec", "int8"],
}


def last(path, name):
    values = [json.loads(line) for line in open(path)]
    return [v["value"] for v in values if v["name"] == name][-1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("program")
    ap.add_argument("text")
    ap.add_argument("--seeds", type=int, default=3)
    ap.add_argument("--peers", type=int, default=4)
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--only", nargs="*", help="names of policies to run, besides every_step")
    ap.add_argument("--keep", help="keep runs in this folder; finished ones are not run again")
    a = ap.parse_args()
    folder = a.keep or tempfile.mkdtemp()
    chosen = {n: f for n, f in POLICIES.items() if not a.only or n == "every_step" or n in a.only}
    results = {name: [] for name in chosen}
    for seed in range(1, a.seeds + 1):
        for number, (name, flags) in enumerate(chosen.items()):
            run = f"{'-'.join(f.strip('-') for f in flags[1::2])}-{seed}"
            out = subprocess.run([a.program, "train", "--data.path", a.text, "--run.directory", folder, "--run.name", run,
                                  "--peers", str(a.peers), "--steps", str(a.steps), "--seed", str(seed), *MODEL, *flags],
                                 capture_output=True, text=True, errors="replace")
            if out.returncode != 0:
                sys.exit(f"{name}, seed {seed}: {out.stderr}")
            metrics = os.path.join(folder, run, "metrics.jsonl")
            results[name].append((last(metrics, "validation_loss"), last(metrics, "bytes_sent")))
            print(f"{name}, seed {seed}: loss {results[name][-1][0]:.4f}, {results[name][-1][1] / 1e6:.1f} MB", file=sys.stderr)

    base_loss = statistics.mean(l for l, _ in results["every_step"])
    base_bytes = statistics.mean(b for _, b in results["every_step"])
    print(f"| policy | validation loss, {a.seeds} seeds | mean | against every_step | MB sent by a peer | times fewer |\n|---|---|---|---|---|---|")
    for name, runs in results.items():
        loss, sent = statistics.mean(l for l, _ in runs), statistics.mean(b for _, b in runs)
        print(f"| {name} | {', '.join(f'{l:.4f}' for l, _ in runs)} | {loss:.4f} | {100 * (loss / base_loss - 1):+.2f} % | "
              f"{sent / 1e6:.1f} | {base_bytes / sent:.1f} |")


main()
