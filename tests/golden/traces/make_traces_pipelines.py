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
    def __init__(self, name, blocks, rate=0.01, seed=1, scale=1):
        self.name, self.lines = name, []
        random = np.random.default_rng(seed)
        self.rate = float(np.float32(rate))
        self.table = rounded(random.normal(size=(VOCABULARY, WIDTH)) * scale)
        self.start = []  # of each block: M and c, of very different scales
        for b in range(blocks):
            matrix = rounded(random.normal(size=(WIDTH, WIDTH)) * (0.3, 1e-2, 1e-3)[b % 3])
            self.start.append((matrix, rounded(random.normal(size=WIDTH) * (0.1, 1.0)[b % 2] * scale)))
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
        head = f"Written by {pathlib.Path(sys.argv[0]).name}. " + inspect.cleandoc(about)
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
        self.rates = [trace.rate] * len(self.blocks)
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
            self.blocks[b] = tuple(p - self.rates[b] * u for p, u in zip(self.blocks[b], updates))
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


def gwtf_spare():
    """GWTF, Go With The Flow: Blagoev et al. 2025 (2509.21221). Paths of all micro-batches of a step as a flow: as many as the
    peers carry, at least cost, where going from i to j costs d_ij = (c_i + c_j) / 2 + (the links' mean latency and time of
    the tensor), c the seconds of computation (so two independent reviews quote the paper, which was not at hand). Its peers
    find a flow by local exchanges (simulated annealing) that lower the largest cost; neither its code nor a complete rule of
    that is public, and this is the optimum of the sum, by trying all ways to share out the work.

    Three stages of two or three peers (10, 11; 20, 21, 22; 30, 31), eight micro-batches. A path begins and ends with the
    data, so each of its peers counts with both halves of its c. A peer carries at most what it can in the least time T in
    which its stage carries all, floor(T / c): 6 and 3, 1 and 2 and 5, 6 and 3 (T is this library's measure of capacity; the
    paper's is memory). Here peers could carry more than there is; where they could not, and training: the trace gwtf. `best`
    is the least sum, `carries` who then carries how many.
    """
    trace = Trace("gwtf_spare", 1)
    random = np.random.default_rng(9)
    room, seconds = ((6, 3), (1, 2, 5), (6, 3)), ((2, 4), (8, 4, 2), (3, 6))
    delays = [rounded(random.uniform(0.01, 6, size=(2, 3))), rounded(random.uniform(0.01, 6, size=(3, 2)))]
    trace.put("micro_batches", [8])
    trace.put("seconds", [c for stage in seconds for c in stage])
    trace.put("delay 0", delays[0])
    trace.put("delay 1", delays[1])
    known = {}

    def cost(a, b, c):
        return delays[0][a][b] + delays[1][b][c] + seconds[0][a] + seconds[1][b] + seconds[2][c]

    def cheapest(left, micro_batches):
        if micro_batches == 0:
            return 0.0, ()
        if (left, micro_batches) not in known:
            ways = []
            for way in itertools.product(*(range(len(stage)) for stage in left)):
                if all(stage[at] > 0 for stage, at in zip(left, way)):
                    after = tuple(tuple(n - (p == at) for p, n in enumerate(stage)) for stage, at in zip(left, way))
                    rest, paths = cheapest(after, micro_batches - 1)
                    ways.append((cost(*way) + rest, (way,) + paths))
            known[left, micro_batches] = min(ways)
        return known[left, micro_batches]

    best, paths = cheapest(room, 8)
    trace.put("carries", [sum(way[s] == p for way in paths) for s in range(3) for p in range(len(room[s]))])
    trace.put("best", [best])
    return trace


def noloco_routes():
    """NoLoCo's dynamic pipeline routing: Kolehmainen et al. 2025 (2506.10911); github.com/jkolehm/noloco, commit
    006b799e1eaa3e6e6ef920fff3b2e95886ce6a65: src/noloco/dipaco_pipeline.py (routes), sparse_optimizer_c.py (outer step).

    Four replicas of two stages. In each micro-batch a permutation of the replicas says to whose second stage each first
    stage sends; gradients go back that way. Every replica of a stage steps on what came through it: the gradient of the sum
    over its four micro-batches, each of two of the eight sequences of the replica where it began, over that batch's tokens.
    After every third step the outer step of the trace noloco, in pairs, for each stage: α = 0.5, β = 0.7, γ = 0.9; who
    meets whom is the same in both stages. Routes and pairs are drawn by whoever runs the method.
    """
    routes = [[(3, 2, 0, 1), (2, 1, 0, 3), (1, 0, 3, 2), (3, 0, 2, 1)], [(3, 0, 2, 1), (3, 0, 2, 1), (1, 2, 3, 0), (3, 1, 0, 2)],
              [(0, 1, 3, 2), (2, 3, 1, 0), (1, 2, 3, 0), (2, 1, 3, 0)], [(0, 2, 1, 3), (3, 0, 2, 1), (3, 1, 0, 2), (0, 2, 1, 3)],
              [(0, 3, 2, 1), (3, 1, 0, 2), (0, 3, 2, 1), (2, 0, 1, 3)], [(2, 1, 0, 3), (1, 2, 0, 3), (0, 3, 1, 2), (3, 1, 2, 0)]]
    pairs = [[(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    replicas, blocks, cut, sequences, micro_batches, local_steps = 4, 4, 2, 8, 4, 3
    trace = Trace("noloco_routes", blocks)
    for name, value in (("replicas", replicas), ("sequences", sequences), ("micro_batches", micro_batches), ("steps", len(routes))):
        trace.put(name, [value])
    trace.put("routes", routes)
    fast = [[np.concatenate([m.ravel(), c]) for m, c in trace.start] for _ in range(replicas)]  # [replica][block]
    slow = [[x.copy() for x in of_one] for of_one in fast]
    inner = [[0 * x for x in of_one] for of_one in fast]
    outer = [[0 * x for x in of_one] for of_one in fast]

    def parts(x):
        return x[:WIDTH * WIDTH].reshape(WIDTH, WIDTH), x[WIDTH * WIDTH:]

    for step, drawn in enumerate(routes):
        total = [[0 * x for x in of_one] for of_one in fast]
        for m, to in enumerate(drawn):
            size = sequences // micro_batches
            for first in range(replicas):
                rows = batch(first, step, sequences)[m * size:(m + 1) * size].ravel()
                owners = [first if b < cut else to[first] for b in range(blocks)]
                way = [parts(fast[owners[b]][b]) for b in range(blocks)]
                g = gradients(way, trace.table[rows], 1 / (sequences * TOKENS), [], exact, exact, None)
                for b, (matrix, vector) in enumerate(g):
                    total[owners[b]][b] += np.concatenate([matrix.ravel(), vector])
        for r in range(replicas):
            for b in range(blocks):
                inner[r][b] = MOMENTUM * inner[r][b] + total[r][b]
                fast[r][b] = fast[r][b] - trace.rate * inner[r][b]
        if (step + 1) % local_steps == 0:
            before = [[x.copy() for x in of_one] for of_one in slow]
            for pair in pairs[step // local_steps]:
                for b in range(blocks):
                    progress = np.mean([fast[p][b] - before[p][b] for p in pair], axis=0)
                    middle = np.mean([before[p][b] for p in pair], axis=0)
                    for p in pair:
                        outer[p][b] = 0.5 * outer[p][b] + 0.7 * progress + 0.9 * (middle - before[p][b])
                        slow[p][b] = before[p][b] + outer[p][b]
                        fast[p][b] = slow[p][b].copy()
        for r in range(replicas):
            for b in range(blocks):
                matrix, vector = parts(fast[r][b])
                trace.put(f"block{b}.matrix {r} {step + 1}", matrix)
                trace.put(f"block{b}.vector {r} {step + 1}", vector)
    return trace


def write(traces):
    """Those that the command line names, or all."""
    for make in traces:
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make().write(make.__doc__)


TRACES = [varuna, dtfm, aq_sgd_pipeline, crosspipe, fusion_llm, gwtf, gwtf_spare, noloco_routes]

if __name__ == "__main__":
    write(TRACES)
