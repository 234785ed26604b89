#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes routing.golden beside this script: how DiPaCo (Douillard et al. 2024, 2403.10616, section 2.4) sorts documents to
paths, in numpy and double precision, from the paper's text and the textbooks' equations, not from this library.

features   the mean, over a text's first tokens, of what the last block of the model in ../gpt.golden makes of them
k-means    Lloyd's steps from given first centres, until nothing changes
router     logistic regression of the best path: the minimum of mean cross-entropy + decay/2 |W|^2 on features with mean 0
           and variance 1, found by Newton's steps (the library goes down the gradient)
shards     each document at the two paths with the highest scores

A file is lines "f32 NAME COUNT", an empty line, then the numbers of each line in turn, little-endian.
Run it again only if the definitions change: python3 tests/golden/dipaco/make_routing.py
"""
import math
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
WIDTH, HEADS, EPSILON, PREFIX = 24, 3, 1e-5, 8
DECAY, PATHS = 0.01, 3


def read_golden(path):
    data = path.read_bytes()
    head, _, body = data.partition(b"\n\n")
    found, at = {}, 0
    for line in head.decode().splitlines():
        kind, name, count = line.split()
        found[name] = np.frombuffer(body, "<i4" if kind == "i32" else "<f4", int(count), at)
        at += 4 * int(count)
    return found


def features_of(golden, tokens):
    """[documents, WIDTH] of tokens [documents, PREFIX]."""
    w = {name[7:]: v.astype(np.float64) for name, v in golden.items() if name.startswith("weight:")}

    def norm(x, name):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d ** 2).mean(-1, keepdims=True) + EPSILON) * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"].reshape(-1, x.shape[-1]).T + w[name + ".bias"]

    def attention(x):
        q, k, v = np.split(x, 3, axis=-1)
        out = np.zeros_like(q)
        size = WIDTH // HEADS
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            scores = q[..., part] @ k[..., part].swapaxes(-1, -2) / math.sqrt(size)
            scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out[..., part] = p / p.sum(-1, keepdims=True) @ v[..., part]
        return out

    x = w["wte.weight"].reshape(-1, WIDTH)[tokens] + w["wpe.weight"].reshape(-1, WIDTH)[:PREFIX]
    for i in range(2):
        p = f"h.{i}."
        x = x + linear(attention(linear(norm(x, p + "ln_1"), p + "attn.c_attn")), p + "attn.c_proj")
        y = linear(norm(x, p + "ln_2"), p + "mlp.c_fc")
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        x = x + linear(y, p + "mlp.c_proj")
    return x.mean(1)


def lloyd(rows, centres):
    before = None
    while True:
        nearest = ((rows[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        if before is not None and (nearest == before).all():
            return centres, nearest
        centres = np.stack([rows[nearest == c].mean(0) for c in range(len(centres))])
        before = nearest


def logistic(rows, best):
    """W [PATHS, width] and b [PATHS], for rows as they are, with sum(b) = 0 on standard rows."""
    mean, deviation = rows.mean(0), rows.std(0)
    x = np.concatenate(((rows - mean) / deviation, np.ones((len(rows), 1))), axis=1)
    n, columns = x.shape
    target = np.eye(PATHS)[best]
    decays = np.tile(np.append(np.full(columns - 1, DECAY), 0.0), PATHS)
    theta = np.zeros(PATHS * columns)
    for _ in range(100):
        logits = x @ theta.reshape(PATHS, columns).T
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gradient = ((p - target).T @ x / n).reshape(-1) + decays * theta
        hessian = np.diag(decays)
        for a in range(PATHS):
            for b in range(PATHS):
                weight = p[:, a] * ((a == b) - p[:, b])
                hessian[a * columns:(a + 1) * columns, b * columns:(b + 1) * columns] += (x * weight[:, None]).T @ x / n
        # All biases may move alike without a change: the least step.
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        theta = theta - step
        if np.abs(gradient).max() < 1e-13:
            break
    w = theta.reshape(PATHS, columns)
    weights = w[:, :-1] / deviation
    return weights, w[:, -1] - weights @ mean


def main():
    golden = read_golden(HERE.parent / "gpt.golden")
    tokens = golden["inputs"].reshape(2, -1)[:, :PREFIX]
    entries = [("features", features_of(golden, tokens))]

    random = np.random.default_rng(3)
    places = np.array([[3, 0, 0, -1, 0], [-2, 2, 0, 1, 0], [0, -2, 3, 0, 1]], np.float64)
    rows = np.concatenate([place + 1.5 * random.standard_normal((20, 5)) for place in places])
    rows = rows[random.permutation(len(rows))].astype(np.float32).astype(np.float64)
    centres, nearest = lloyd(rows, rows[:PATHS])
    entries += [("rows", rows), ("first", rows[:PATHS]), ("centres", centres), ("nearest", nearest)]

    # The path that is best is that of a noisy judge, so that no plane tells them apart.
    judged = rows @ random.standard_normal((5, PATHS)) + random.standard_normal((len(rows), PATHS))
    best = judged.argmax(1)
    weights, bias = logistic(rows, best)
    scores = rows @ weights.T + bias
    entries += [("best", best), ("scores", scores - scores[:, :1])]
    two = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :2], axis=1)
    entries += [("two", two)]

    with open(HERE / "routing.golden", "wb") as out:
        out.write("".join(f"f32 {name} {np.size(v)}\n" for name, v in entries).encode() + b"\n")
        for _, v in entries:
            out.write(np.ascontiguousarray(v, "<f4").tobytes())


if __name__ == "__main__":
    main()
