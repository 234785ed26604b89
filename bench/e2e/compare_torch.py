#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same GPT-2 training step in this library and in the current PyTorch, eager and compiled, taking turns in one run; prints a
Markdown table.

One step is forward, backward and AdamW on random tokens: learned positions, pre-LN, biases, GELU in its tanh form, tied
head, no dropout. All programs are started anew for every round, in the opposite order in every other round, so none warms the machine
for another.

    compare_torch.py --install                                          # once: PyTorch into build/torch, unless it is there
    compare_torch.py PATH/TO/train_step [--rounds 3] [--configs tiny,small,gpt2] [--threads 1,2] [--dtypes f32,bf16]
                     [--gemm packed|onednn] [--modes eager,compiled] [--debian] [--prefix COMMAND]

PyTorch gets what a user gives it for speed: scaled_dot_product_attention, the fused AdamW, and torch.compile, which needs a C++ compiler.

--debian adds a column of Debian's own PyTorch (python3-torch), with what its version has. Its rate depends on the BLAS that it finds:
point all three alternatives at openblas-openmp, or two threads are slower than one:
    d=/usr/lib/x86_64-linux-gnu
    for l in libblas.so.3 liblapack.so.3 libopenblas.so.0; do
        update-alternatives --set $l-x86_64-linux-gnu $d/openblas-openmp/$l
    done
This script says which one it found. It runs itself with --torch in a child for PyTorch's half."""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

VERSION = "2.15.0"  # what our figures are against
VENV = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "torch")
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
DEBIAN = "/usr/bin/python3"

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


def usable(torch, extras):
    """Of `extras` what this version has on CPUs."""
    version = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2]))
    since = {"sdpa": (2, 0), "compile": (2, 0), "fused": (2, 4)}
    return {e for e in extras if version >= since[e]}


def run_torch(config, threads, dtype, steps, extras):
    """Prints tokens per second in the form that parse() reads."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    extras = usable(torch, extras)
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


def blas_of_debian():
    """The file behind libblas.so.3, which Debian's PyTorch uses."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        path = os.path.join(folder, "libblas.so.3")
        if os.path.exists(path):
            return os.path.realpath(path)
    return "unknown"


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def try_version(python):
    """The version of the PyTorch that an interpreter has, and None; or None, and why there is no such version."""
    try:
        done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    except OSError as error:
        return None, error.strerror
    return (last_line(done.stdout), None) if done.returncode == 0 else (None, last_line(done.stderr))


def version_of(python, remedy):
    """Of the PyTorch that an interpreter has, which must be there."""
    version, why = try_version(python)
    if version is None:
        sys.exit(f"error: {python} has no PyTorch that works ({why}); {remedy}")
    return version


def install(python):
    """PyTorch in a virtual environment of its own, unless `python` has it. From PyTorch's own index 0.8 GB; where that cannot
    be reached, from PyPI, whose PyTorch needs CUDA's libraries, and 5 GB."""
    version, _ = try_version(python)
    if version is not None and version.split("+")[0] == VERSION:
        return print(f"{python} has torch {version} already")
    if python != python_of_venv():
        sys.exit(f"error: {python} has {'torch ' + version if version else 'no torch'}; leave --python out to install {VERSION} into build/torch")
    os.makedirs(os.path.dirname(VENV), exist_ok=True)
    free = shutil.disk_usage(os.path.dirname(VENV)).free / 1e9
    if free < 8:
        sys.exit(f"error: PyTorch may need 8 GB while it is installed, and {os.path.dirname(os.path.abspath(VENV))} has {free:.1f} GB left; make room, or name an "
                 "interpreter that has torch with --python")
    made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"error: no virtual environment at {VENV}: {last_line(made.stdout + made.stderr)}; on Debian it needs python3-venv")
    pip = [os.path.join(VENV, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for source in (["--retries", "0", "--timeout", "20", "--index-url", CPU_WHEELS], []):
        print(f"installing torch {VERSION} from {source[-1] if source else 'PyPI, with the CUDA libraries that it needs there'} ...", flush=True)
        done = subprocess.run([*pip, *source, f"torch=={VERSION}"], capture_output=True, text=True)
        if done.returncode == 0:
            return print(f"{os.path.abspath(VENV)} has torch {version_of(python_of_venv(), 'remove the folder, and install it again')}")
    sys.exit(f"error: pip could not install torch {VERSION}: {last_line(done.stderr)}; see to it that a package index can be reached, or name an "
             "interpreter that has torch with --python")


def python_of_venv():
    return os.path.abspath(os.path.join(VENV, "bin", "python"))


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
        without = " (torch.compile needs a C++ compiler; --modes eager goes without)" if command[-1].endswith("compile") else ""
        sys.exit(f"error: {' '.join(command)} failed{without}:\n{done.stderr}")
    print("  " + done.stdout.strip().splitlines()[0], file=sys.stderr, flush=True)
    return parse(done.stdout)


def rivals(arguments):
    """What is measured beside us: a column's name, an interpreter, and what PyTorch may use there."""
    python = arguments.python or python_of_venv()
    version = version_of(python, "run `compare_torch.py --install` once, or name an interpreter that has torch with --python")
    if version.split("+")[0] != VERSION:
        print(f"note: this is PyTorch {version}; our figures are against {VERSION}", file=sys.stderr)
    known = {"eager": "sdpa,fused", "compiled": "sdpa,fused,compile"}
    modes = arguments.modes.split(",")
    if set(modes) - set(known):
        sys.exit(f"error: --modes has {arguments.modes}; it takes eager, compiled, or both with a comma")
    found = [(f"PyTorch {version} {mode}", python, known[mode]) for mode in modes]
    if arguments.debian:
        version = version_of(DEBIAN, "install python3-torch, or leave --debian out")
        found.append((f"Debian's {version}", DEBIAN, "sdpa,fused"))
    return found


def compare(arguments, others, config, threads, dtype):
    """One table row: medians over rounds in which all programs take their turns."""
    steps = str(STEPS[config])
    commands = [[arguments.program, "--config", config, "--threads", str(threads), "--dtype", dtype, "--steps", steps, "--gemm", arguments.gemm]]
    for _, python, extras in others:
        commands.append([python, os.path.abspath(__file__), "--torch", config, str(threads), dtype, steps, extras])
    results = [[] for _ in commands]
    for i in range(arguments.rounds):
        turns = list(zip(results, commands))
        for result, command in turns if i % 2 == 0 else reversed(turns):
            result.append(measure(command, threads, arguments.prefix))
    ours = results[0][0][1]
    for (name, _, _), result in zip(others, results[1:]):
        if abs(ours - result[0][1]) > 0.1:  # same model at the start: the loss of chance
            sys.exit(f"error: {name} does not start from the same loss: {result[0][1]}, and ours is {ours}")
    rates = [statistics.median(r[0] for r in rows) for rows in results]
    spread = max((max(r[0] for r in rows) - min(r[0] for r in rows)) / rate for rows, rate in zip(results, rates))
    better = max(rates[1:1 + len(arguments.modes.split(","))])  # of the current PyTorch
    shown = " | ".join(f"{rate:,.0f}" for rate in rates)
    return f"| {config} | {threads} | {dtype} | {shown} | **{rates[0] / better:.2f}** | {100 * spread:.0f} % |"


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--torch":
        config, threads, dtype, steps, extras = sys.argv[2:7]
        return run_torch(config, int(threads), dtype, int(steps), extras.split(","))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", nargs="?", help="the train_step benchmark")
    p.add_argument("--install", action="store_true", help=f"install torch {VERSION} into build/torch first")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--configs", default="tiny,small,gpt2")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--dtypes", default="f32,bf16")
    p.add_argument("--gemm", default="packed")
    p.add_argument("--modes", default="eager,compiled", help="of PyTorch")
    p.add_argument("--python", help="an interpreter that has torch, if not the one of --install")
    p.add_argument("--debian", action="store_true", help=f"also the PyTorch of {DEBIAN}")
    p.add_argument("--prefix", default="", help="put before each command, such as 'chrt -f 10' where the machine is shared")
    arguments = p.parse_args()
    if arguments.install:
        install(arguments.python or python_of_venv())
    if arguments.program is None:
        return None if arguments.install else p.error("name the train_step benchmark, such as build/release/bin/bench_e2e_train_step")
    others = rivals(arguments)
    rows = [compare(arguments, others, c, int(t), d) for c in arguments.configs.split(",") for t in arguments.threads.split(",")
            for d in arguments.dtypes.split(",")]
    blas = f"; BLAS of Debian's: {blas_of_debian()}" if arguments.debian else ""
    print(f"Tokens/s, medians of {arguments.rounds} rounds in which all take turns{blas}\n")
    names = [name for name, _, _ in others]
    print("| config | threads | dtype | causeway | " + " | ".join(names) + " | against the better | spread |")
    print("|---|---|---|---|" + "---|" * len(names) + "---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
