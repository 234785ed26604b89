#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of fine-tuning through served blocks: python3 make_traces_served.py [NAME...]. See make_traces.py.

A GPT with its backward pass by hand, checked against differences each time a trace is made.
"""
import numpy as np

from make_traces import Tie, Trace, dynamic_int8, rounded, write

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 3, 2, 8, 12, 11
SEQUENCES, TOKENS, STEPS, RATE = 2, 5, 4, float(np.float32(0.05))
HOPS = [(0, 2), (2, 3)]  # blocks of each server


def frozen(draw):
    """By names and shapes of a GPT-2 checkpoint whose matrices are [outputs, inputs]."""
    w = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH), "ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    for i in range(LAYERS):
        for name, outputs, inputs in (("attn.c_attn", 3 * WIDTH, WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                      ("mlp.c_fc", 4 * WIDTH, WIDTH), ("mlp.c_proj", WIDTH, 4 * WIDTH)):
            w[f"h.{i}.{name}.weight"], w[f"h.{i}.{name}.bias"] = (outputs, inputs), (outputs,)
        for name in ("ln_1", "ln_2"):
            w[f"h.{i}.{name}.weight"], w[f"h.{i}.{name}.bias"] = (WIDTH,), (WIDTH,)
    gain = lambda name: 1.0 if "ln_" in name and name.endswith("weight") else 0.0
    return {name: rounded(gain(name) + draw.normal(size=shape) * (0.4 if len(shape) == 2 else 0.1)) for name, shape in w.items()}


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    over = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    unit = centred * over

    def back(dy):
        d = dy * gain
        return over * (d - d.mean(-1, keepdims=True) - unit * (d * unit).mean(-1, keepdims=True))

    return unit * gain + bias, back


def attention(qkv):
    """Causal, of [sequences, rows, 3·width]."""
    s, t, _ = qkv.shape
    q, k, v = (part.reshape(s, t, HEADS, -1).transpose(0, 2, 1, 3) for part in np.split(qkv, 3, axis=2))
    scale = 1 / np.sqrt(WIDTH // HEADS)
    scores = np.where(np.tri(t, dtype=bool), q @ k.swapaxes(2, 3) * scale, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    joined = lambda x: x.transpose(0, 2, 1, 3).reshape(s, t, WIDTH)

    def back(dy):
        dy = dy.reshape(s, t, HEADS, -1).transpose(0, 2, 1, 3)
        dp = dy @ v.swapaxes(2, 3)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
        return np.concatenate([joined(ds @ k), joined(ds.swapaxes(2, 3) @ q), joined(p.swapaxes(2, 3) @ dy)], axis=2)

    return joined(p @ v), back


def gelu(x):
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    slope = 0.5 * (1 + np.tanh(inner)) + 0.5 * x / np.cosh(inner)**2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * x * (1 + np.tanh(inner)), lambda dy: dy * slope


class Tuned:
    """What is trained: deep prompts before each block, or low-rank maps beside those of queries and values."""

    def __init__(self, values, alpha=0.0):
        self.values, self.alpha = values, alpha
        self.gradients = {name: np.zeros_like(x) for name, x in values.items()}

    def block(self, w, i, x):
        if "deep_prompts" in self.values:
            rows = self.values["prompts"].shape[0]
            here = slice(i * rows, (i + 1) * rows)
            x = x.copy()
            x[:, :rows] += self.values["deep_prompts"][here]
        w = {name.split(".", 2)[2]: value for name, value in w.items() if name.startswith(f"h.{i}.")}
        y1, of_norm1 = layer_norm(x, w["ln_1.weight"], w["ln_1.bias"])
        qkv = y1 @ w["attn.c_attn.weight"].T + w["attn.c_attn.bias"]
        pairs = []
        for part, name in ((0, "query"), (2, "value")):
            a, b = (self.values.get(f"block.{i}.{name}.lora_{side}") for side in "AB")
            if a is not None:
                factor = self.alpha / a.shape[0]
                where = slice(part * WIDTH, (part + 1) * WIDTH)
                qkv[:, :, where] += factor * (y1 @ a.T) @ b.T
                pairs.append((f"block.{i}.{name}.lora_", where, factor, a, b))
        mixed, of_attention = attention(qkv)
        x1 = x + mixed @ w["attn.c_proj.weight"].T + w["attn.c_proj.bias"]
        y2, of_norm2 = layer_norm(x1, w["ln_2.weight"], w["ln_2.bias"])
        hidden, of_gelu = gelu(y2 @ w["mlp.c_fc.weight"].T + w["mlp.c_fc.bias"])
        x2 = x1 + hidden @ w["mlp.c_proj.weight"].T + w["mlp.c_proj.bias"]

        def back(dy):
            dx1 = dy + of_norm2(of_gelu(dy @ w["mlp.c_proj.weight"]) @ w["mlp.c_fc.weight"])
            dqkv = of_attention(dx1 @ w["attn.c_proj.weight"])
            dy1 = dqkv @ w["attn.c_attn.weight"]
            for name, where, factor, a, b in pairs:
                d, flat = dqkv[:, :, where], lambda x: x.reshape(-1, x.shape[-1])
                self.gradients[name + "B"] += factor * flat(d).T @ flat(y1 @ a.T)
                self.gradients[name + "A"] += factor * flat(d @ b).T @ flat(y1)
                dy1 = dy1 + factor * d @ b @ a
            dx = dx1 + of_norm1(dy1)
            if "deep_prompts" in self.values:
                self.gradients["deep_prompts"][here] += dx[:, :rows].sum(axis=0)
            return dx

        return x2, back


def loss_of(w, tuned, inputs, targets, cross):
    """The mean loss; adds its gradient. `cross`: what becomes of a tensor between client and server. A server is given a
    hop's input again on the way back, and computes its forward pass anew."""
    x = w["wte.weight"][inputs] + w["wpe.weight"][:TOKENS]
    prompts = tuned.values.get("prompts")
    rows = 0 if prompts is None else prompts.shape[0]
    if rows:
        x = np.concatenate([np.broadcast_to(prompts, (SEQUENCES, rows, WIDTH)), x], axis=1)
    x, backs = cross(x), []
    for first, end in HOPS:
        of_hop = []
        for i in range(first, end):
            x, back = tuned.block(w, i, x)
            of_hop.append(back)
        x = cross(x)
        backs.append(of_hop)
    y, of_norm = layer_norm(x[:, rows:], w["ln_f.weight"], w["ln_f.bias"])
    logits = y @ w["wte.weight"].T
    logits = logits - logits.max(-1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.eye(VOCABULARY)[targets]
    loss = -np.log((p * chosen).sum(-1)).mean()
    dx = np.zeros_like(x)
    dx[:, rows:] = of_norm((p - chosen) / targets.size @ w["wte.weight"])
    dx = cross(dx)
    for of_hop in reversed(backs):
        for back in reversed(of_hop):
            dx = back(dx)
        dx = cross(dx)
    if rows:
        tuned.gradients["prompts"] += dx[:, :rows].sum(axis=0)
    return loss


def check_gradients(w, tuned, inputs, targets):
    """Against differences, where nothing is rounded on its way."""
    exact = Tuned({k: v.copy() for k, v in tuned.values.items()}, tuned.alpha)
    loss_of(w, exact, inputs, targets, lambda x: x)
    for name, value in exact.values.items():
        for at in range(0, value.size, 5):
            slopes = []
            for shift in (1e-5, 2e-5):
                around = []
                for moved_by in (shift, -shift):
                    moved = Tuned({k: v.copy() for k, v in tuned.values.items()}, tuned.alpha)
                    moved.values[name].flat[at] += moved_by
                    around.append(loss_of(w, moved, inputs, targets, lambda x: x))
                slopes.append((around[0] - around[1]) / (2 * shift))
            slope = (4 * slopes[0] - slopes[1]) / 3  # without the third derivative
            assert abs(slope - exact.gradients[name].flat[at]) < 1e-8, name


def adamw(values, moments, gradients, step):
    """Loshchilov and Hutter 2019: betas 0.9 and 0.95, weight decay 0.1."""
    for name, g in gradients.items():
        m, v = moments.setdefault(name, [0.0, 0.0])
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        moments[name] = [m, v]
        direction = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.95**step)) + 1e-8)
        values[name] = values[name] - RATE * (direction + 0.1 * values[name])


def trained(name, start, alpha, seed):
    draw = np.random.default_rng(seed)
    trace, w = Trace(name, 1, [STEPS], learning_rate=RATE), frozen(draw)
    trace.lines, trace.tensors = [], ()
    for key, value in (("peers", [1]), ("steps", [STEPS]), ("learning_rate", [RATE])):
        trace.put(key, value)
    tuned, moments = Tuned(start(draw), alpha), {}
    for key, value in w.items():
        trace.put(f"frozen {key}", value)
    for key, value in tuned.values.items():
        trace.put(f"{key} 0", value)
    for step in range(STEPS):
        inputs, targets = draw.integers(VOCABULARY, size=(2, SEQUENCES, TOKENS))
        tuned.gradients = {k: np.zeros_like(v) for k, v in tuned.values.items()}
        check_gradients(w, tuned, inputs, targets)
        loss = loss_of(w, tuned, inputs, targets, dynamic_int8)
        trace.put(f"inputs {step}", inputs)
        trace.put(f"targets {step}", targets)
        trace.put(f"loss {step}", [loss])
        adamw(tuned.values, moments, tuned.gradients, step + 1)
        for key, value in tuned.values.items():
            trace.put(f"{key} {step + 1}", value)
    return trace


def without_ties(name, start, alpha=0.0):
    """The first stream of random numbers in which no code is close to another one."""
    for seed in range(1000):
        try:
            return trained(name, start, alpha, seed)
        except Tie:
            pass
    raise RuntimeError("all have ties")


def petals_finetune():
    """Petals: Borzunov et al. 2022 (2209.01188); github.com/bigscience-workshop/petals: src/petals/client/ptune.py
    at 1644e893, sequential_autograd.py at 02dfbc7b, models/bloom/model.py at 053abeb8. Prompts go before the embeddings of
    every sequence, those of a block are added to the same rows before it, all are cut off behind the last block; a client
    keeps what went into each server, which computes its forward pass anew on the way back.

    A GPT-2 of 3 blocks, two on one server and one on another, 2 rows of prompts with all blocks' own, AdamW at 0.05, 4
    steps. What crosses is in the dynamic 8 bits of the paper (Dettmers et al. 2022; bitsandbytes, 4096 values to a block), which
    the program can send, too (its --compression is none by default); prompts have no positions, and move in f32.
    """
    return without_ties("petals_finetune", lambda draw: {"prompts": rounded(0.5 * draw.normal(size=(2, WIDTH))),
                                                         "deep_prompts": rounded(0.1 * draw.normal(size=(2 * LAYERS, WIDTH)))})


def petals_lora():
    """Petals with LoRA: Borzunov et al. 2022 (2209.01188), Hu et al. 2021 (2106.09685), equation 3 with the scale alpha/r. In the
    authors' program adapters lie on the servers and are not trained; here a client trains them and sends them along.

    As petals_finetune, with adapters of rank 2 and alpha 4 beside the maps of queries and values of every block.
    """

    def start(draw):
        values = {}
        for i in range(LAYERS):
            for name in ("query", "value"):
                values[f"block.{i}.{name}.lora_A"] = rounded(draw.normal(size=(2, WIDTH)) / np.sqrt(WIDTH))
                values[f"block.{i}.{name}.lora_B"] = rounded(0.1 * draw.normal(size=(WIDTH, 2)))
        return values

    return without_ties("petals_lora", start, alpha=4.0)


TRACES = [petals_finetune, petals_lora]

if __name__ == "__main__":
    write(TRACES)
