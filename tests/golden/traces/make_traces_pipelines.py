#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of pipelines beside it: python3 make_traces_pipelines.py [NAME...]. Needs numpy.

Each function here is the reference of one preset, written from the paper and, where there is one, the authors' public code,
not from this library. It says which in its docstring, which becomes the head of the trace. Two things are in a trace: the
parameters after each step, of the same tiny model trained unsplit, with what the method does to what crosses a boundary;
and the order of work or the plan, where the method has one of its own. tests/presets/traces_pipelines.cpp replays a trace.

The model is a row of linear blocks: x + x·M + c, with half the square of what comes out as a token's loss; see
tests/support/linear_stages.hpp. A batch's gradient is that of its mean loss, and replicas' gradients are averaged. The inner
optimizer is SGD with momentum: u = 0.75·u + g, θ -= rate·u.
"""
import inspect
import itertools
import pathlib
import sys

import numpy as np

WIDTH, TOKENS, VOCABULARY, MOMENTUM = 4, 8, 29, 0.75


def rounded(x):
    """What a float can hold: the trace and the reference start from the same numbers."""
    return np.asarray(x, dtype=np.float32).astype(np.float64)


class Trace:
    def __init__(self, name, blocks, rate=0.01, seed=1):
        self.name, self.lines = name, []
        random = np.random.default_rng(seed)
        self.rate = float(np.float32(rate))
        self.table = rounded(random.normal(size=(VOCABULARY, WIDTH)))
        self.start = []  # of each block: M and c, of very different scales
        for b in range(blocks):
            matrix = rounded(random.normal(size=(WIDTH, WIDTH)) * (0.3, 1e-2, 1e-3)[b % 3])
            self.start.append((matrix, rounded(random.normal(size=WIDTH) * (0.1, 1.0)[b % 2])))
        self.put("width", [WIDTH])
        self.put("learning_rate", [rate])
        self.put("momentum", [MOMENTUM])
        self.put("table", self.table)
        self.put("start", np.concatenate([np.concatenate([m.ravel(), c]) for m, c in self.start]))

    def put(self, name, values):
        self.lines.append(f"{name} : " + " ".join(f"{np.float32(v):.9g}" for v in np.ravel(values)))

    def note(self, step, blocks):
        for b, (matrix, vector) in enumerate(blocks):
            self.put(f"block{b}.matrix {step}", matrix)
            self.put(f"block{b}.vector {step}", vector)

    def write(self, about):
        folder = pathlib.Path(__file__).parent
        head = "Written by make_traces_pipelines.py. " + inspect.cleandoc(about)
        lines = [f"# {line}".rstrip() for line in head.splitlines()]
        (folder / f"{self.name}.golden").write_text("\n".join(lines + self.lines) + "\n")


# ---- batches: the library's own draws (support::token_batch), which are no part of any method -------------------------


def philox(counter, key):
    """Salmon et al. 2011, ten rounds."""
    c, k0, k1, word = list(counter), key & 0xFFFFFFFF, key >> 32, 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & word, (p0 >> 32) ^ c[3] ^ k1, p0 & word]
        k0, k1 = (k0 + 0x9E3779B9) & word, (k1 + 0xBB67AE85) & word
    return c[1] << 32 | c[0]


def batch(replica, step, sequences):
    """[sequence][token]."""
    stream = philox((step & 0xFFFFFFFF, step >> 32, 0, 0), replica)
    draws = [philox((i, 0, stream & 0xFFFFFFFF, stream >> 32), 5) for i in range(TOKENS * sequences)]
    return np.array([d % VOCABULARY for d in draws]).reshape(sequences, TOKENS)


# ---- the model and its training --------------------------------------------------------------------------------------


def exact(values, _edge, _samples):
    return values


def gradients(blocks, x, scale, cuts, forward, backward, samples):
    """Of scale times the summed loss of some rows x; blocks `cuts` begin stages, and `forward` and `backward` are what
    comes out on the other side of the boundary before them: (values, edge, sample of each row)."""
    inputs, total = [], []
    for b, (matrix, vector) in enumerate(blocks):
        if b in cuts:
            x = forward(x, cuts.index(b), samples)
        inputs.append(x)
        x = x + x @ matrix + vector
    g = scale * x
    for b in reversed(range(len(blocks))):
        total.insert(0, (inputs[b].T @ g, g.sum(axis=0)))
        g = g + g @ blocks[b][0].T
        if b in cuts:
            g = backward(g, cuts.index(b), samples)
    return total


class Training:
    """`replicas` pipelines with a batch of `sequences` each, in micro-batches as if they were one: only sums are taken."""

    def __init__(self, trace, replicas, sequences, micro_batches, cuts=(), forward=exact, backward=exact, batch_of=batch):
        self.trace, self.replicas, self.sequences, self.micro_batches = trace, replicas, sequences, micro_batches
        self.cuts, self.forward, self.backward, self.batch_of = list(cuts), forward, backward, batch_of
        self.blocks = [(m.copy(), c.copy()) for m, c in trace.start]
        self.momentum = [(0 * m, 0 * c) for m, c in trace.start]
        self.last = None
        trace.put("replicas", [replicas])
        trace.put("sequences", [sequences])
        trace.put("micro_batches", [micro_batches])

    def step(self, number):
        size = self.sequences // self.micro_batches
        total = [(0 * m, 0 * c) for m, c in self.blocks]
        for r in range(self.replicas):
            tokens = self.batch_of(r, number, self.sequences)
            for first in range(0, self.sequences, size):
                x = self.trace.table[tokens[first:first + size].ravel()]
                samples = np.repeat(np.arange(first, first + size) + 100 * r, TOKENS)
                scale = 1 / (self.sequences * TOKENS)
                g = gradients(self.blocks, x, scale, self.cuts, self.forward, self.backward, samples)
                total = [(a + m / self.replicas, b + c / self.replicas) for (a, b), (m, c) in zip(total, g)]
        self.last = total
        pairs = zip(self.momentum, total)
        self.momentum = [(MOMENTUM * um + m, MOMENTUM * uc + c) for (um, uc), (m, c) in pairs]
        self.blocks = [(m - self.trace.rate * um, c - self.trace.rate * uc)
                       for (m, c), (um, uc) in zip(self.blocks, self.momentum)]
        self.trace.note(number + 1, self.blocks)

    def run(self, steps):
        self.trace.put("steps", [steps])
        for s in range(steps):
            self.step(s)
        return self.trace


def half(values, _edge=0, _samples=()):
    return values.astype(np.float16).astype(np.float64)


def bfloat(values, _edge=0, _samples=()):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000  # to the nearest, ties to even
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


# ---- orders of work --------------------------------------------------------------------------------------------------

FORWARD, BACKWARD, INPUT, WEIGHT, RECOMPUTE = range(5)


def put_orders(trace, orders, name="order"):
    """Of each rank: kind, micro-batch, kind, micro-batch, ..."""
    for rank, order in enumerate(orders):
        trace.put(f"{name} {rank}", [number for operation in order for number in operation])


def gpipe(ranks, micro_batches):
    """Huang et al. 2019 (1811.06965), figure 2c: all forwards, then all backwards. The last forward's gradient is there
    first, so backwards go from the last to the first micro-batch."""
    order = [(FORWARD, m) for m in range(micro_batches)] + [(BACKWARD, m) for m in reversed(range(micro_batches))]
    return [order] * ranks


def one_f_one_b(ranks, micro_batches):
    """Narayanan et al. 2021 (2104.04473), section 2.2.1, figure 4 (PipeDream-Flush)."""
    orders = []
    for rank in range(ranks):
        warm = min(ranks - rank - 1, micro_batches)
        order = [(FORWARD, m) for m in range(warm)]
        for m in range(micro_batches - warm):
            order += [(FORWARD, warm + m), (BACKWARD, m)]
        orders.append(order + [(BACKWARD, m) for m in range(micro_batches - warm, micro_batches)])
    return orders


def varuna_order(ranks, micro_batches):
    """generate_schedule.cc: quanta of a forward, of a recomputation and of each half of a backward; a rank serves its
    queues by precedence: second halves, backwards, recomputations, forwards. A backward that begins has the rank before
    recompute, so that both end together. Their printed order has a backward once."""
    queues = [{kind: [] for kind in (WEIGHT, BACKWARD, RECOMPUTE, FORWARD)} for _ in range(ranks)]
    queues[0][FORWARD] = list(range(micro_batches))
    orders = [[] for _ in range(ranks)]
    while any(q for rank in queues for q in rank.values()):
        chosen = []
        for rank in range(ranks):
            kind = next((k for k, waiting in queues[rank].items() if waiting), None)
            if kind is None:
                continue
            m = queues[rank][kind].pop(0)
            chosen.append((rank, kind, m))
            if kind != WEIGHT:
                orders[rank].append((kind, m))
        for rank, kind, m in chosen:
            if kind == FORWARD and rank + 1 < ranks:
                queues[rank + 1][FORWARD].append(m)
            elif kind in (FORWARD, RECOMPUTE):
                queues[rank][BACKWARD].append(m)
            elif kind == BACKWARD:
                queues[rank][WEIGHT].append(m)
                if rank > 0:
                    queues[rank - 1][RECOMPUTE].append(m)
    return orders


# ---- pipelines -------------------------------------------------------------------------------------------------------


def varuna():
    """Varuna: Athlur et al., EuroSys 2022 (2111.04007), section 3.2; github.com/microsoft/varuna, commit
    a2145cc30b976a7917829a55e2a866f0ca4c54e5: varuna/generate_schedule.cc gives the static order.

    Two pipelines of three ranks over six blocks, four micro-batches each, half precision on the boundaries both ways
    (partitioned_model.py sends fp16). Recomputation and the order change no number. The order is given for four ranks and
    eight micro-batches; what a rank does instead while it waits is not in it.
    """
    trace = Trace("varuna", 6)
    put_orders(trace, varuna_order(4, 8))
    return Training(trace, 2, 8, 4, (2, 4), half, half).run(4)


TRACES = [varuna]

if __name__ == "__main__":
    for make in TRACES:
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make().write(make.__doc__)
