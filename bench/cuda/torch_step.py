#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of GPT-2 in PyTorch, with the shapes of bench/cuda/step.cpp: the rows to hold ours against.

usage: torch_step.py [--quick] [--eager] [--device DEVICE]

torch.compile, scaled_dot_product_attention (flash attention), bf16 autocast over f32 parameters, fused AdamW, clipping. Prints
a table in Markdown. --quick takes small models, --eager leaves torch.compile out. Exit code 2: no PyTorch, or no such device.
"""

import argparse
import contextlib
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed; not compared.")
    sys.exit(2)

VOCABULARY = 50257
SIZES = {  # name: (layers, heads, width, context, vocabulary, sequences, repeats)
    "GPT-2 124M": (12, 12, 768, 1024, VOCABULARY, 64, 7),
    "GPT-2 1.5B": (48, 25, 1600, 1024, VOCABULARY, 16, 5),
}
QUICK = {
    "GPT-2 124M": (2, 1, 64, 32, 100, 2, 1),
    "GPT-2 1.5B": (3, 2, 128, 32, 100, 2, 1),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=2))
        mixed = attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.projection(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # PyTorch before 2.0
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of_step(size, device, compiled):
    layers, heads, width, context, vocabulary, sequences, repeats = size
    model = Gpt(layers, heads, width, context, vocabulary).to(device)
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
    run = torch.compile(model) if compiled else model
    tokens = (torch.arange(sequences * context) * 7919 % vocabulary).view(sequences, context).to(device)
    times = []
    for step in range(2 + repeats):
        wait(device)
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        half = torch.autocast(device, dtype=torch.bfloat16) if device == "cuda" else contextlib.nullcontext()
        with half:
            loss = run(tokens, tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wait(device)
        if step >= 2:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no CUDA device; not compared.")
        return 2
    torch.set_float32_matmul_precision("high")
    compiled = not options.eager and hasattr(torch, "compile")
    print(f"PyTorch {torch.__version__}, {'torch.compile' if compiled else 'eager'}.\n")
    print("| model | tokens | step | tokens/s |\n|---|---|---|---|")
    for name, size in (QUICK if options.quick else SIZES).items():
        tokens = size[5] * size[3]
        seconds = seconds_of_step(size, options.device, compiled)
        print(f"| {name}, bf16 | {tokens} | {seconds * 1e3:.1f} ms | {tokens / seconds:.0f} |", flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
