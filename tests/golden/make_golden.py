#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes gpt.golden and llama.golden beside this script: a tiny model's weights, tokens, loss, the gradient of every
parameter, and the losses of ten AdamW steps, computed by PyTorch in double precision. Made with PyTorch 1.13.1; any later
version gives the same numbers. Run it again only if the models' definition changes: python3 tests/golden/make_golden.py

A file is lines "i32|f32 NAME COUNT", an empty line, then the numbers of each line in turn, little-endian.
"""
import math
import pathlib

import torch
import torch.nn.functional as F

BATCH, LENGTH, CONTEXT, VOCABULARY = 2, 12, 16, 41
LAYERS, WIDTH, EPSILON = 2, 24, 1e-5


def attention(q, k, v):
    """q [B, H, T, d]; k, v [B, K, T, d], each shared by H / K query heads."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
    return (F.softmax(scores.masked_fill(mask, -math.inf), dim=-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, -1)


def heads_of(x, count):
    return x.view(BATCH, LENGTH, count, -1).transpose(1, 2)


class Gpt:
    HEADS, HIDDEN = 3, 4 * WIDTH

    @classmethod
    def shapes(cls):
        yield "wte.weight", (VOCABULARY, WIDTH)
        yield "wpe.weight", (CONTEXT, WIDTH)
        for i in range(LAYERS):
            p = f"h.{i}."
            for name, out, inp in (("attn.c_attn", 3 * WIDTH, WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                   ("mlp.c_fc", cls.HIDDEN, WIDTH), ("mlp.c_proj", WIDTH, cls.HIDDEN)):
                yield p + name + ".weight", (out, inp)
                yield p + name + ".bias", (out,)
            for name in ("ln_1", "ln_2"):
                yield p + name + ".weight", (WIDTH,)
                yield p + name + ".bias", (WIDTH,)
        yield "ln_f.weight", (WIDTH,)
        yield "ln_f.bias", (WIDTH,)

    @classmethod
    def logits(cls, w, tokens):
        def norm(x, name):
            return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], EPSILON)

        def linear(x, name):
            return F.linear(x, w[name + ".weight"], w[name + ".bias"])

        x = w["wte.weight"][tokens] + w["wpe.weight"][:LENGTH]
        for i in range(LAYERS):
            p = f"h.{i}."
            q, k, v = linear(norm(x, p + "ln_1"), p + "attn.c_attn").split(WIDTH, dim=2)
            o = attention(*(heads_of(part, cls.HEADS) for part in (q, k, v)))
            x = x + linear(o, p + "attn.c_proj")
            x = x + linear(F.gelu(linear(norm(x, p + "ln_2"), p + "mlp.c_fc"), approximate="tanh"), p + "mlp.c_proj")
        return norm(x, "ln_f") @ w["wte.weight"].T


class Llama:
    HEADS, KV_HEADS, HIDDEN, THETA = 4, 2, 40, 10000.0
    SIZE = WIDTH // HEADS

    @classmethod
    def shapes(cls):
        yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            yield p + "input_layernorm.weight", (WIDTH,)
            yield p + "self_attn.qkv_proj.weight", (WIDTH + 2 * cls.KV_HEADS * cls.SIZE, WIDTH)
            yield p + "self_attn.o_proj.weight", (WIDTH, WIDTH)
            yield p + "post_attention_layernorm.weight", (WIDTH,)
            yield p + "mlp.gate_up_proj.weight", (2 * cls.HIDDEN, WIDTH)
            yield p + "mlp.down_proj.weight", (WIDTH, cls.HIDDEN)
        yield "model.norm.weight", (WIDTH,)
        yield "lm_head.weight", (VOCABULARY, WIDTH)

    @classmethod
    def rotate(cls, x):
        """Hugging Face's layout: element i turns with element i + d/2."""
        inverse = cls.THETA ** (-torch.arange(0, cls.SIZE, 2, dtype=torch.float64) / cls.SIZE)
        angle = torch.outer(torch.arange(LENGTH, dtype=torch.float64), inverse)
        cos, sin = (torch.cat((f(angle), f(angle)), dim=-1) for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    @classmethod
    def logits(cls, w, tokens):
        def norm(x, name):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * w[name + ".weight"]

        x = w["model.embed_tokens.weight"][tokens]
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            packed = norm(x, p + "input_layernorm") @ w[p + "self_attn.qkv_proj.weight"].T
            kv = cls.KV_HEADS * cls.SIZE
            q, k, v = packed.split((WIDTH, kv, kv), dim=2)
            q, k, v = heads_of(q, cls.HEADS), heads_of(k, cls.KV_HEADS), heads_of(v, cls.KV_HEADS)
            x = x + attention(cls.rotate(q), cls.rotate(k), v) @ w[p + "self_attn.o_proj.weight"].T
            gate, up = (norm(x, p + "post_attention_layernorm") @ w[p + "mlp.gate_up_proj.weight"].T).chunk(2, dim=2)
            x = x + (F.silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T
        return norm(x, "model.norm") @ w["lm_head.weight"].T


def initial(name, shape):
    """Away from the usual start, so that every path carries a gradient worth comparing. Exact in f32."""
    value = torch.randn(shape, dtype=torch.float64) * (0.25 if len(shape) == 2 else 0.1)
    if len(shape) == 1 and name.endswith(".weight"):
        value = value + 1.0
    return value.float().double().requires_grad_()


def make(model, path):
    torch.manual_seed(7)
    w = {name: initial(name, shape) for name, shape in model.shapes()}
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    targets = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    targets[0, 3] = targets[1, 11] = -1  # two positions that do not count

    def loss():
        return F.cross_entropy(model.logits(w, tokens).view(-1, VOCABULARY), targets.view(-1), ignore_index=-1)

    entries = [("i32", "inputs", tokens), ("i32", "targets", targets)]
    entries += [("f32", "weight:" + name, value.detach().clone()) for name, value in w.items()]
    first = loss()
    first.backward()
    entries += [("f32", "gradient:" + name, value.grad.clone()) for name, value in w.items()]
    groups = [{"params": [v for v in w.values() if v.dim() == 2], "weight_decay": 0.1},
              {"params": [v for v in w.values() if v.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    losses.append(loss().item())
    entries.append(("f32", "losses", torch.tensor(losses)))
    with open(path, "wb") as f:
        f.write("".join(f"{kind} {name} {value.numel()}\n" for kind, name, value in entries).encode() + b"\n")
        for kind, _, value in entries:
            f.write(value.to(torch.int32 if kind == "i32" else torch.float32).contiguous().numpy().tobytes())
    print(path.name, path.stat().st_size, "bytes; losses", [round(x, 5) for x in losses])


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    make(Gpt, here / "gpt.golden")
    make(Llama, here / "llama.golden")
