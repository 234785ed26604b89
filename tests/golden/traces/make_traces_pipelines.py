#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of pipelines beside it: python3 make_traces_pipelines.py [NAME...]. Needs numpy.

Each function here is the reference of one preset, written from the paper and, where there is one, the authors' public code,
not from this library. It says which in its docstring, which becomes the head of the trace. Two things are in a trace: the
parameters after each step, of the same tiny model trained unsplit, with what the method does to what crosses a boundary;
and the order of work or the plan, where the method has one of its own. tests/presets/traces_pipelines.cpp replays a trace.

The model is a row of linear blocks: x + x·M + c, with half the square of what comes out as a token's loss; see
tests/support/linear_stages.hpp. A batch's gradient is that of its mean loss, and replicas' gradients are averaged. The inner
optimizer is SGD with momentum: u = 0.75·u + g, θ -= rate·u; where blocks move from peer to peer it is Adam, with 0.75 and
0.9, and no weight decay.
"""
import inspect
import itertools
import pathlib
import sys

import numpy as np

WIDTH, TOKENS, VOCABULARY, MOMENTUM = 4, 8, 29, 0.75
BETAS, EPSILON = (0.75, 0.9), 1e-8


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

    def __init__(self, trace, replicas, sequences, micro_batches, cuts=(), forward=exact, backward=exact, batches=None,
                 adam=False):
        self.trace, self.replicas, self.sequences, self.micro_batches = trace, replicas, sequences, micro_batches
        self.cuts, self.forward, self.backward, self.batches = list(cuts), forward, backward, batches
        self.blocks = [(m.copy(), c.copy()) for m, c in trace.start]
        self.adam, self.steps = adam, np.zeros(len(self.blocks))
        self.momentum = [(0 * m, 0 * c) for m, c in trace.start]
        self.squares = [(0 * m, 0 * c) for m, c in trace.start]
        self.last = None
        trace.put("replicas", [replicas])
        trace.put("sequences", [sequences])
        trace.put("micro_batches", [micro_batches])

    def step(self, number):
        size = self.sequences // self.micro_batches
        total = [(0 * m, 0 * c) for m, c in self.blocks]
        for r in range(self.replicas):
            which = number if self.batches is None else self.batches[number]
            tokens = batch(r, which, self.sequences)
            for first in range(0, self.sequences, size):
                x = self.trace.table[tokens[first:first + size].ravel()]
                samples = np.repeat(np.arange(first, first + size) + 100 * r + 1000 * which, TOKENS)
                scale = 1 / (self.sequences * TOKENS)
                g = gradients(self.blocks, x, scale, self.cuts, self.forward, self.backward, samples)
                total = [(a + m / self.replicas, b + c / self.replicas) for (a, b), (m, c) in zip(total, g)]
        self.last = total
        for b, parts in enumerate(total):
            self.steps[b] += 1
            updates = [self.update(b, k, g) for k, g in enumerate(parts)]
            self.blocks[b] = tuple(p - self.trace.rate * u for p, u in zip(self.blocks[b], updates))
        self.trace.note(number + 1, self.blocks)

    def update(self, b, k, g):
        """Of part k of block b."""
        def mixed(state, beta, new):
            parts = list(state[b])
            parts[k] = beta * parts[k] + new
            state[b] = tuple(parts)
            return parts[k]
        if not self.adam:
            return mixed(self.momentum, MOMENTUM, g)
        first, second = (float(np.float32(beta)) for beta in BETAS)
        m = mixed(self.momentum, first, (1 - first) * g) / (1 - first ** self.steps[b])
        v = mixed(self.squares, second, (1 - second) * g * g) / (1 - second ** self.steps[b])
        return m / (np.sqrt(v) + EPSILON)

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
    """All forwards, then all backwards, from the first micro-batch on (forward_stage and backward_stage of
    pipeline_parallel/dist_gpipe_pipeline_async.py, of DT-FM and AC-SGD alike; figure 2c of 1811.06965 goes back from the
    last one)."""
    order = [(FORWARD, m) for m in range(micro_batches)] + [(BACKWARD, m) for m in range(micro_batches)]
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
    recompute, so that both end together. Their printed order has a backward once. And how many quanta there are."""
    queues = [{kind: [] for kind in (WEIGHT, BACKWARD, RECOMPUTE, FORWARD)} for _ in range(ranks)]
    queues[0][FORWARD] = list(range(micro_batches))
    orders, quanta = [[] for _ in range(ranks)], 0
    while any(q for rank in queues for q in rank.values()):
        chosen, quanta = [], quanta + 1
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
    return orders, quanta


# ---- pipelines -------------------------------------------------------------------------------------------------------


def varuna():
    """Varuna: Athlur et al., EuroSys 2022 (2111.04007), section 3.2; github.com/microsoft/varuna, commit
    a2145cc30b976a7917829a55e2a866f0ca4c54e5: varuna/generate_schedule.cc gives the static order.

    Two pipelines of three ranks over six blocks, four micro-batches each, half precision on the boundaries both ways
    (partitioned_model.py sends fp16). Recomputation and the order change no number. The order is given for four ranks and
    eight micro-batches; what a rank does instead while it waits is not in it.
    """
    trace = Trace("varuna", 6)
    put_orders(trace, varuna_order(4, 8)[0])
    return Training(trace, 2, 8, 4, (2, 4), half, half).run(4)


def dtfm():
    """DTFM: Yuan et al., NeurIPS 2022 (2206.01288), sections 3.1 to 3.3; github.com/DS3Lab/DT-FM, commit
    cda948f02111ad194ce108d4c65b85258afd0c19: scheduler/heuristic_evolutionary_solver/scheduler.py (costs),
    pipeline_parallel/dist_gpipe_pipeline_async.py (order).

    Six devices for two pipelines of three stages: all 15 partitions into groups of two, all orders of groups, all pairings,
    by the costs of the code; the least is the trace's. The search for it is an evolution whose draws are nobody's
    algorithm: on so few devices it has to find the optimum. Gradients take 40 MB and activations 30 MB in the reference
    network's manner: delays and bandwidths of three places, and devices of a place that differ. Then training: half
    precision on the boundaries both ways, GPipe's order.
    """
    trace = Trace("dtfm", 6)
    replicas, stages, gradient_bytes, activation_bytes = 2, 3, 40e6, 30e6
    devices = replicas * stages
    random = np.random.default_rng(3)
    place = [0, 1, 2, 0, 1, 2]
    delay, bandwidth = np.zeros((devices, devices)), np.zeros((devices, devices))
    for a, b in itertools.combinations(range(devices), 2):
        near = place[a] == place[b]
        delay[a, b] = delay[b, a] = rounded((0.002 if near else 0.05) * random.uniform(0.5, 1.5))
        bandwidth[a, b] = bandwidth[b, a] = rounded((2e9 if near else 4e8) * random.uniform(0.5, 1.5))

    def group_cost(group):  # compute_data_parallel_cost
        return max(sum(2 * (delay[a, b] + 8 * gradient_bytes / (bandwidth[a, b] * replicas)) for b in group if b != a)
                   for a in group)

    def hop_cost(left, right):  # bipartite_matching, by all pairings
        return min(max(delay[a, b] + 8 * activation_bytes / bandwidth[a, b] for a, b in zip(left, order))
                   for order in itertools.permutations(right))

    def partitions(rest):
        if not rest:
            yield []
        for others in itertools.combinations(rest[1:], replicas - 1):
            group = (rest[0],) + others
            for more in partitions([d for d in rest if d not in group]):
                yield [group] + more

    costs = []
    for groups in partitions(list(range(devices))):
        data_parallel = max(group_cost(g) for g in groups)
        pipeline = min(sum(hop_cost(a, b) for a, b in zip(order, order[1:])) for order in itertools.permutations(groups))
        costs.append((data_parallel + 2 * pipeline, data_parallel, pipeline))
    trace.put("bytes", [gradient_bytes, activation_bytes])
    trace.put("delay", delay)
    trace.put("bandwidth", bandwidth)
    trace.put("cost", min(costs))  # in all, of averaging, of a pipeline in one direction
    put_orders(trace, gpipe(3, 4))
    return Training(trace, 2, 8, 4, (2, 4), half, half).run(3)


class ChangesOfSamples:
    """Algorithm 1 of 2206.01299: m(ξ) of each boundary and sample, here of each of its rows. First whole, then
    m += Q(a - m), which is what the next stage works with; kept in half precision (compress and decompress of
    delta_modules.py)."""

    def __init__(self):
        self.kept = {}

    def __call__(self, values, edge, samples):
        out = []
        for row, key in enumerate(zip([edge] * len(samples), samples, np.arange(len(samples)) % TOKENS)):
            before = self.kept.get(key)
            now = half(values[row]) if before is None else before + uniform(values[row] - before, 4)
            self.kept[key] = half(now)
            out.append(now)
        return np.array(out)


def uniform(row, bits):
    """Q: to the nearest of evenly spaced levels within the row's largest magnitude, zero among them, as many on both
    sides."""
    top = 2 ** (bits - 1) - 1
    scale = np.float64(np.float32(np.max(np.abs(row))) / np.float32(top))
    return row if scale == 0 else np.rint(row / scale) * scale


def aq_sgd_pipeline():
    """AQ-SGD: Wang et al., NeurIPS 2022 (2206.01299), algorithm 1; github.com/DS3Lab/AC-SGD, commit
    95a0f2ec00e6cf520ed0c74c02f17d09def2f8d4: compress/delta_modules.py (DeltaCompressor),
    pipeline_parallel/dist_gpipe_pipeline_async.py.

    Four bits forward, eight backward, as run_lm.sh has it; two batches that come again in the order 0 1 0 1 1. The
    algorithm leaves Q open. The trace takes the library's: one scale for each row, and levels -7 .. 7; compress/fixpoint.py
    has one scale for each channel of a micro-batch, levels -8 .. 7 of an eighth of the scale, and scales in half precision.
    As there, m is rounded to half precision where it is kept, and the next stage works with what it was before; what is
    sent whole is in half precision.
    """
    trace = Trace("aq_sgd_pipeline", 6)
    batches = [0, 1, 0, 1, 1]
    trace.put("batches", batches)
    put_orders(trace, gpipe(3, 4))

    def backward(values, _edge, _samples):
        return np.array([uniform(row, 8) for row in values])

    return Training(trace, 2, 8, 4, (2, 4), ChangesOfSamples(), backward, batches).run(len(batches))


def interleavings(micro_batches, room):
    """Orders of one rank with both halves of backwards: micro-batches are alike, so that each kind goes from the first to
    the last; from its forward to its second half each is held, `room` at most."""
    def grow(order, done):
        f, i, w = done
        if w == micro_batches:
            yield tuple(order)
        for kind, ready in ((FORWARD, f < micro_batches and f - w < room), (INPUT, i < f), (WEIGHT, w < i)):
            if ready:
                more = list(done)
                more[(FORWARD, INPUT, WEIGHT).index(kind)] += 1
                yield from grow(order + [(kind, done[(FORWARD, INPUT, WEIGHT).index(kind)])], more)
    return list(grow([], [0, 0, 0]))


def ends(orders, seconds, edges):
    """When the last operation ends, or None where ranks wait for each other. seconds[rank][kind]; edges[i]: latency and
    seconds of a message, which go through a link one after another in each direction."""
    ranks, at, time, sent = len(orders), [0] * len(orders), [0.0] * len(orders), {}
    free = {(e, way): 0.0 for e in range(ranks - 1) for way in (FORWARD, INPUT)}
    moved = True
    while moved:
        moved = False
        for r, order in enumerate(orders):
            while at[r] < len(order):
                kind, m = order[at[r]]
                came = 0.0
                if kind == FORWARD and r > 0:
                    came = sent.get((r - 1, kind, m))
                if kind == INPUT and r + 1 < ranks:
                    came = sent.get((r + 1, kind, m))
                if came is None:
                    break
                time[r] = max(time[r], came) + seconds[r][kind]
                edge = r if kind == FORWARD else r - 1
                if kind != WEIGHT and 0 <= edge < ranks - 1:
                    latency, transfer = edges[edge]
                    free[edge, kind] = max(free[edge, kind], time[r]) + transfer
                    sent[r, kind, m] = free[edge, kind] + latency
                at[r], moved = at[r] + 1, True
    return max(time) if all(a == len(o) for a, o in zip(at, orders)) else None


def crosspipe():
    """CrossPipe: Chen et al., USENIX ATC 2025 (2507.00217). No public code; the text of its solver and of its greedy
    algorithm was not at hand, so that the trace has what both are for.

    Its model: stages of forwards and of both halves of backwards, links with a latency and a bandwidth, room for so many
    micro-batches in a rank. Three ranks that are not alike and three micro-batches: all orders of all ranks are timed, for
    a few latencies of the first link and rooms; the least time is the trace's (`best`: latency, room, seconds). Then
    training on bf16 boundaries both ways.
    """
    trace = Trace("crosspipe", 6)
    seconds = [{FORWARD: 1.0, INPUT: 1.0, WEIGHT: 0.75}, {FORWARD: 1.5, INPUT: 1.25, WEIGHT: 1.0},
               {FORWARD: 1.0, INPUT: 1.25, WEIGHT: 0.5}]
    trace.put("seconds", [s[k] for s in seconds for k in (FORWARD, INPUT, WEIGHT)])
    for case, (latency, room) in enumerate([(0.0, 3), (1.0, 3), (3.0, 3), (0.0, 2), (1.0, 2), (3.0, 2)]):
        edges = [(latency, 0.25), (0.5, 0.25)]
        times = (ends(orders, seconds, edges) for orders in itertools.product(interleavings(3, room), repeat=3))
        trace.put(f"best {case}", [latency, room, min(t for t in times if t is not None)])
    return Training(trace, 2, 8, 4, (2, 4), bfloat, bfloat).run(3)


def fusion_llm():
    """FusionLLM: Tang et al. 2024 (2410.12707), AdaTopK. No public code, and the paper's formula for ratios was not at
    hand.

    The largest values of what crosses a boundary, of each micro-batch and direction, as many as the boundary's link may
    send; the rest arrive as zeros, and nobody makes up for them. How many follows from the ratio of the slowest link and
    the bytes of a message, which are the library's: with a ratio of 3 and a second link that is 1.7 times as quick.
    """
    trace = Trace("fusion_llm", 6)
    kept = [18, 33]  # drawn: adaptive_top_k::kept of 64 values
    trace.put("kept", kept)

    def largest(values, edge, _samples):
        flat = values.ravel()
        out = np.zeros_like(flat)
        chosen = np.argsort(-np.abs(flat), kind="stable")[:kept[edge]]
        out[chosen] = flat[chosen]
        return out.reshape(values.shape)

    put_orders(trace, gpipe(3, 4))
    return Training(trace, 2, 8, 4, (2, 4), largest, largest).run(4)


def gwtf():
    """GWTF: Blagoev et al. 2025 (2509.21221), section 4: the cost of a pair of nodes, and the flow of least cost. No public
    code, and peers find the flow among themselves there; the trace has the optimum that they seek.

    d(i, j) is half of what both nodes compute, and what a tensor takes on the link, delay and bytes at the bandwidth, both
    ways averaged; a review of the paper says that its peers lower the dearest path instead of the sum of all. Four
    micro-batches through three stages of two, three and two nodes that carry as many as they can:
    `capacity`. All ways to share the work are tried; `cost` is the least sum of d over all paths' pairs. (The library takes
    capacities from seconds instead of memory. They are filled here, so that what nodes compute is the same in all ways.)
    And training, on whatever paths: the numbers of the unsplit model.
    """
    trace = Trace("gwtf", 4, seed=17)
    seconds, capacity, micro_batches = [[1.0, 1.0], [1.0, 2.0, 2.0], [0.6, 2.0]], [[2, 2], [2, 1, 1], [3, 1]], 4
    for stage, (s, c) in enumerate(zip(seconds, capacity)):
        trace.put(f"seconds {stage}", s)
        trace.put(f"capacity {stage}", c)

    def loads(stage):
        return [node for node, c in enumerate(capacity[stage]) for _ in range(c)]

    for case in range(5):
        random = np.random.default_rng([case, 5])
        links = [rounded(random.uniform(0.05, 1, size=(len(a), len(b)))) for a, b in zip(seconds, seconds[1:])]
        for edge, link in enumerate(links):
            trace.put(f"link {case} {edge}", link)

        def cost(paths):
            return sum((seconds[e][path[e]] + seconds[e + 1][path[e + 1]]) / 2 + links[e][path[e], path[e + 1]]
                       for path in paths for e in range(2))
        trace.put(f"cost {case}", [min(cost(list(zip(loads(0), second, third)))
                                       for second in set(itertools.permutations(loads(1)))
                                       for third in set(itertools.permutations(loads(2))))])
    return Training(trace, 1, 6, 6, (2,)).run(4)


# ---- pipelines on peers that are taken away --------------------------------------------------------------------------


def unsplit(name, seed):
    """Six blocks, a batch of six sequences in as many micro-batches, six steps."""
    trace = Trace(name, 6, seed=seed)
    trace.put("betas", BETAS)
    trace.put("epsilon", [EPSILON])
    return trace, Training(trace, 1, 6, 6, adam=True)


def bamboo():
    """Bamboo: Thorpe et al., NSDI 2023 (2204.12013), section 5; github.com/uclasystem/bamboo, commit
    80809293289419d40a870b4a9ccb8df0082ce3fb: external/deepspeed/deepspeed/runtime/pipe/engine.py (init_redundancy, _inc).

    Redundant computation changes no number: whoever is lost, in the middle of a step, parameters after each step are those
    of the unsplit model with the same global batch, and so are the copies that each rank keeps of its successor's blocks.
    Orders are 1F1B, given for three ranks and six micro-batches; `successor`: whose stage each of three ranks keeps
    besides.
    """
    trace, training = unsplit("bamboo", 11)
    trace.put("successor", [(stage + 1) % 3 for stage in range(3)])
    put_orders(trace, one_f_one_b(3, 6))
    return training.run(6)


def oobleck():
    """Oobleck: Jang et al., SOSP 2023 (2309.08125), sections 4.1 and 4.2; github.com/SymbioticLab/Oobleck, commit
    3b7a0c2f19bff0991e623ffbeb8a5b365853bf3a: oobleck/csrc/planning/execution_result.h (T1 + T2 + T3),
    oobleck/planning/instantiator.py (_distribute_batch).

    Ten blocks on nodes of one GPU, a stage of six at most; eight nodes and f = 1. Templates have from n0 to N - f n0 nodes
    (`template`: nodes, and the slowest stage of the cut that takes the least T, by all cuts). The batch is split so that
    N_b T / S varies least (`split`: micro-batches, nodes of the pipelines, shares), by all splits. Cuts of the same slowest
    stage differ in T by where it is, and which pipelines are the best follows from another estimate of their time here (the
    first micro-batch's way and the slowest stage for each other one): neither is in the trace. And the numbers are those of
    the unsplit model.
    """
    trace, training = unsplit("oobleck", 16)
    blocks, memory, nodes, failures = [3, 2, 4, 2, 2, 3, 1, 2, 3, 2], 6, 8, 1

    def estimate(seconds):  # get_t()
        k = max(range(len(seconds)), key=lambda s: (seconds[s], s))
        return sum(seconds) + (2 * len(seconds) + k + 1) * seconds[k] + sum(seconds[k:])

    def cuts(stages):
        for inner in itertools.combinations(range(1, len(blocks)), stages - 1):
            edges = (0,) + inner + (len(blocks),)
            if all(b - a <= memory for a, b in zip(edges, edges[1:])):
                yield [sum(blocks[a:b]) for a, b in zip(edges, edges[1:])]

    smallest = -(-len(blocks) // memory)
    best = {n: min(cuts(n), key=estimate) for n in range(smallest, nodes - failures * smallest + 1)}
    trace.put("blocks", blocks)
    for case, (n, seconds) in enumerate(best.items()):
        trace.put(f"template {case}", [n, max(seconds)])
    for case, (micro_batches, sizes) in enumerate([(12, (3, 2)), (20, (3, 2)), (24, (3, 2, 2)), (31, (3, 2, 2)),
                                                   (32, (2, 2, 2, 2))]):
        kinds = sorted(set(sizes))
        weights = np.array([estimate(best[n]) / n for n in kinds])
        counts = [sizes.count(n) for n in kinds]
        splits = [np.array(nb) for nb in itertools.product(range(1, micro_batches + 1), repeat=len(kinds))
                  if np.dot(nb, counts) == micro_batches]
        least = min(splits, key=lambda nb: np.var(weights * nb))
        shares = dict(zip(kinds, least))
        trace.put(f"split {case}", [micro_batches, *sizes, *(shares[n] for n in sizes)])
    return training.run(6)


def recycle():
    """ReCycle: Gandhi et al., SOSP 2024 (2405.14009). No public code; that twins take turns is the library's reading of "to
    the peers of the same stage". The order of work (a solver's, in the paper) is not in the trace.

    A lost peer's micro-batches go to the peers of its stage in other pipelines, in turn (`routes`: of each micro-batch, the
    pipeline that has it in each stage, in a grid of three pipelines of three stages without the second one's last stage);
    the numbers are those of the unsplit model.
    """
    trace, training = unsplit("recycle", 12)
    pipelines, stages, lost, micro_batches = 3, 3, (1, 2), 9
    routes, turn = [], 0
    for m in range(micro_batches):
        own = m % pipelines
        route = [own] * stages
        if own == lost[0]:
            twins = [p for p in range(pipelines) if p != lost[0]]
            route[lost[1]] = twins[turn % len(twins)]
            turn += 1
        routes.append(route)
    trace.put("routes", routes)
    return training.run(6)


def parcae():
    """Parcae: Duan et al., NSDI 2024 (2403.14097), sections 5 and 6; github.com/JF-D/Parcae, commit
    efedee7e069d795cbfd6b7667312bdc12f31eb8f: liveput/liveput.py (look_ahead_one_interval).

    Which shapes train the most for a forecast of instances: each interval's rate times what the expected migration leaves
    of it, over all sequences of shapes and all sets of instances that may be lost (the paper and its code draw them).
    Migrations are the paper's three, under the library's conditions: nobody lost and nobody more needed, nothing; a
    complete pipeline from those of the same stages, intra; otherwise with the same stages, inter; other stages, all of the
    pipeline. Their seconds are given here, and so are rates (`rate`: pipelines, stages, samples per second).

    Whoever is lost and whatever shape follows: the numbers are those of the unsplit model.
    """
    trace, training = unsplit("parcae", 13)
    now, instances, available, seconds, most_stages = (2, 3), 7, [6, 5, 5, 7], 60.0, 3
    intra, inter, pipeline = 5.0, 12.0, 25.0
    trace.put("now", [*now, instances])
    trace.put("available", available)
    trace.put("migrations", [seconds, most_stages, intra, inter, pipeline])
    rates = {(d, p): float(np.float32(d * p ** 1.1 / (1 + 0.05 * d * d))) for p in (1, 2, 3) for d in range(1, 7 // p + 1)}
    for case, ((d, p), rate) in enumerate(rates.items()):
        trace.put(f"rate {case}", [d, p, rate])

    def migration(shape, count, lost, after):
        if after[1] != shape[1]:
            return pipeline
        total, sets = 0.0, list(itertools.combinations(range(count), lost))
        for gone in sets:
            alive = [sum(1 for d in range(shape[0]) if d * shape[1] + s not in gone) for s in range(shape[1])]
            if after[0] > min(alive):
                total += inter
            elif min(alive) < shape[0]:
                total += intra
        return total / len(sets)

    plans = {(now,): 0.0}
    count = instances
    for n in available:
        shapes = [s for s in rates if s[0] * s[1] <= n]
        pause = {(a, b): migration(a, count, max(0, count - n), b) for a in {q[-1] for q in plans} for b in shapes}
        plans = {q + (s,): v + rates[s] * (seconds - pause[q[-1], s]) for q, v in plans.items() for s in shapes}
        count = n
    best = max(plans, key=plans.get)
    trace.put("plan", [x for shape in best[1:] for x in shape])
    trace.put("samples", [plans[best]])
    return training.run(6)


def varuna_morphing():
    """Varuna's job morphing: Athlur et al., EuroSys 2022 (2111.04007), section 4; github.com/microsoft/varuna, commit
    a2145cc30b976a7917829a55e2a866f0ca4c54e5: varuna/auto_config.py (AutoConfig), varuna/generate_schedule.cc.

    Another number of stages and pipelines, the same global batch: the numbers are those of the unsplit model. `shape`: for
    so many devices, the stages, pipelines and micro-batches of each that end first, and when; by the quanta of the order.
    Six cut-points that are alike, three at most on a device, forwards of 1 and backwards of 2, links that cost nothing.
    AutoConfig tries numbers of stages that divide the cut-points; others would end later, as their largest stages show.
    """
    trace, training = unsplit("varuna_morphing", 14)
    points, most, batch_size = 6, 3, 6
    for case, devices in enumerate(range(2, 7)):
        found = []
        for stages in range(2, devices + 1):
            pipelines = devices // stages
            micro_batches = -(-batch_size // pipelines)
            largest = -(-points // stages)
            if points % stages == 0 and largest <= most:
                found.append((largest * varuna_order(stages, micro_batches)[1], stages, pipelines, micro_batches))
            elif largest <= most:  # at least two stages are the largest, and one of them recomputes
                found.append((largest * 4 * micro_batches, 0, 0, 0))
        best = min(found)
        assert best[1] > 0 and sum(f[0] == best[0] for f in found) == 1
        trace.put(f"shape {case}", [devices, *best[1:], best[0]])
    return training.run(6)


def checkfree():
    """CheckFree: Blagoev et al. 2025 (2506.15461), section 4.1 and algorithm 1; github.com/gensyn-ai/CheckFree, commit
    8d7d5477bc56e80971b6ae6cb6e1fd2211e36f72: simulate_training/convergence_training.py (ours-grad-avg).

    Three stages of two blocks; the one between is lost after `lost_after` steps, and becomes the mean of its neighbours,
    block by block, weighted by the squared norms of their last gradients, as the library's documentation has it from the
    paper, whose text was not at hand. The code weights by the norms, after clipping, and adds 0.0001. Its lost stage gets a
    new Adam, with a rate of its own (lr_scale); that is not in the trace: of the step after the loss it has the neighbours
    alone, whose gradients have gone through what was made up.
    """
    trace, training = unsplit("checkfree", 15)
    lost_after = 2  # given: when the peer dies
    trace.put("lost_after", [lost_after])
    trace.put("steps", [lost_after + 1])
    for s in range(lost_after):
        training.step(s)
    norms = [sum(float((part ** 2).sum()) for b in stage for part in training.last[b]) for stage in ((0, 1), (4, 5))]
    trace.put("shares", np.array(norms) / sum(norms))
    for b in (2, 3):
        pairs = zip(training.blocks[b - 2], training.blocks[b + 2])
        training.blocks[b] = tuple((norms[0] * before + norms[1] * behind) / sum(norms) for before, behind in pairs)
    training.step(lost_after)
    after = tuple(f"block{b}.{part} {lost_after + 1} " for b in (2, 3) for part in ("matrix", "vector"))
    trace.lines = [line for line in trace.lines if not line.startswith(after)]
    return trace


TRACES = [varuna, dtfm, aq_sgd_pipeline, crosspipe, fusion_llm, bamboo, oobleck, recycle, parcae, varuna_morphing, checkfree, gwtf]

if __name__ == "__main__":
    for make in TRACES:
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make().write(make.__doc__)
