#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same GPT-2 training step in this library and in PyTorch, alternating in one run; prints a Markdown table.

One step is forward, backward and AdamW on random tokens: learned positions, pre-LN, biases, GELU in its tanh form, tied
head, no dropout. Both programs are started anew for every round, so neither warms the machine for the other.

    compare_torch.py PATH/TO/train_step [--rounds 3] [--configs tiny,small,gpt2] [--threads 1,2] [--dtypes f32,bf16]
                     [--gemm packed|onednn] [--prefix COMMAND] [--with sdpa,fused,compile]

--with gives PyTorch what newer versions have: scaled_dot_product_attention, the fused AdamW, torch.compile.

PyTorch's rate depends on the BLAS it finds. On Debian point all three alternatives at openblas-openmp, or two threads are
slower than one:
    d=/usr/lib/x86_64-linux-gnu
    for l in libblas.so.3 liblapack.so.3 libopenblas.so.0; do
        update-alternatives --set $l-x86_64-linux-gnu $d/openblas-openmp/$l
    done
This script says which one it found. It runs itself with --torch in a child for PyTorch's half."""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

CONFIGS = {  # layers, width, heads, T, vocabulary, batch
    "nano": (2, 64, 4, 64, 128, 8),
    "tiny": (4, 256, 4, 256, 4096, 4),
    "small": (6, 384, 6, 256, 4096, 4),
    "gpt2": (12, 768, 12, 256, 50304, 1),
}
STEPS = {"nano": 200, "tiny": 12, "small": 8, "gpt2": 4}


def torch_model(layers, width, heads, T, vocabulary, sdpa):
    """GPT-2 the way a PyTorch user writes it."""
    import math
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, mask):
            B, t, C = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
            q, k, v = (y.view(B, t, heads, C // heads).transpose(1, 2) for y in (q, k, v))
            if sdpa:
                p = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.projection(p.transpose(1, 2).reshape(B, t, C))
                return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // heads))
            p = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
            x = x + self.projection((p @ v).transpose(1, 2).reshape(B, t, C))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(T, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            self.register_buffer("mask", torch.triu(torch.ones(T, T, dtype=torch.bool), 1))
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, 0.0, 0.02)

        def forward(self, inputs, targets):
            x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
            for block in self.blocks:
                x = block(x, self.mask)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.view(-1, vocabulary).float(), targets.reshape(-1))

    return GPT()


def run_torch(config, threads, dtype, steps, extras):
    """Prints tokens per second in the form that parse() reads."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    layers, width, heads, T, vocabulary, batch = CONFIGS[config]
    model = torch_model(layers, width, heads, T, vocabulary, "sdpa" in extras)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  **({"fused": True} if "fused" in extras else {}))
    model = torch.compile(model) if "compile" in extras else model
    tokens = torch.randint(0, vocabulary, (8, batch, T + 1))

    def step(i):
        inputs, targets = tokens[i % 8, :, :-1], tokens[i % 8, :, 1:]
        t0 = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = model(inputs, targets)
        t1 = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        t2 = time.perf_counter()
        optimizer.step()
        return t1 - t0, t2 - t1, time.perf_counter() - t2, loss.item()

    first = step(0)[3]
    for i in range(1, 3):
        step(i)
    times = [step(i) for i in range(steps)]
    rates = sorted(batch * T / sum(t[:3]) for t in times)
    ms = [1e3 * statistics.median(t[k] for t in times) for k in range(3)]
    print(
        f"torch {torch.__version__} cfg={config} threads={threads} {dtype}: tok/s min {rates[0]:.1f} "
        f"med {statistics.median(rates):.1f} max {rates[-1]:.1f} | ms fwd {ms[0]:.2f} bwd {ms[1]:.2f} opt {ms[2]:.2f} "
        f"| loss {first:.3f} -> {times[-1][3]:.3f}"
    )


def blas_of_torch():
    """The file behind libblas.so.3, which Debian's PyTorch uses."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        path = os.path.join(folder, "libblas.so.3")
        if os.path.exists(path):
            return os.path.realpath(path)
    return "unknown"


def parse(line):
    """Median tokens per second and the losses of a result line."""
    rate = re.search(r"tok/s min [\d.]+ med ([\d.]+)", line)
    loss = re.search(r"loss ([\d.]+) -> ([\d.]+)", line)
    if rate is None or loss is None:
        sys.exit(f"cannot read the result: {line!r}")
    return float(rate.group(1)), float(loss.group(1)), float(loss.group(2))


def measure(command, threads, prefix):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    done = subprocess.run(prefix.split() + command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    print("  " + done.stdout.strip().splitlines()[0], file=sys.stderr, flush=True)
    return parse(done.stdout)


def compare(arguments, config, threads, dtype):
    """One table row: medians over rounds that alternate between the two programs."""
    steps = str(STEPS[config])
    ours = [arguments.program, "--config", config, "--threads", str(threads), "--dtype", dtype, "--steps", steps,
            "--gemm", arguments.gemm]
    theirs = [arguments.python, os.path.abspath(__file__), "--torch", config, str(threads), dtype, steps, arguments.extras]
    a, b = [], []
    for _ in range(arguments.rounds):
        a.append(measure(ours, threads, arguments.prefix))
        b.append(measure(theirs, threads, arguments.prefix))
    if abs(a[0][1] - b[0][1]) > 0.1:  # same model at the start: the loss of chance
        sys.exit(f"the programs do not start from the same loss: {a[0][1]} and {b[0][1]}")
    rate_a, rate_b = (statistics.median(r[0] for r in rows) for rows in (a, b))
    spread = max((max(r[0] for r in rows) - min(r[0] for r in rows)) / statistics.median(r[0] for r in rows)
                 for rows in (a, b))
    return f"| {config} | {threads} | {dtype} | {rate_a:,.0f} | {rate_b:,.0f} | **{rate_a / rate_b:.2f}** | {100 * spread:.0f} % |"


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--torch":
        config, threads, dtype, steps, extras = sys.argv[2:7]
        return run_torch(config, int(threads), dtype, int(steps), extras.split(","))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", help="the train_step benchmark")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--configs", default="tiny,small,gpt2")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--dtypes", default="f32,bf16")
    p.add_argument("--gemm", default="packed")
    p.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has torch")
    p.add_argument("--with", dest="extras", default="", help="of sdpa, fused and compile, with commas: what PyTorch may use")
    p.add_argument("--prefix", default="", help="put before each command, such as 'chrt -f 10' where the machine is shared")
    arguments = p.parse_args()
    rows = [compare(arguments, c, int(t), d) for c in arguments.configs.split(",") for t in arguments.threads.split(",")
            for d in arguments.dtypes.split(",")]
    print(f"Tokens/s, medians of {arguments.rounds} alternating rounds; PyTorch's BLAS: {blas_of_torch()}\n")
    print("| config | threads | dtype | causeway | PyTorch | ratio | spread |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
