#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces beside it: python3 make_traces.py [NAME...]. Needs numpy.

Each function here is the reference of one preset, written from the paper's equations and, where there is one, the authors'
public code, not from this library. It says which in its docstring, which becomes the head of the trace. Arithmetic is in
double precision; tests/presets/traces_*.cpp replay a trace and compare to 1e-5.

A run is a tiny model whose tensors have very different scales; a peer's gradient in a step is curvature · (value − centre),
with centres out of a hat, so that it matters where a peer stands. Inner steps are plain SGD.
"""
import inspect
import pathlib
import sys

import numpy as np

# name, kind, rows, columns, block, curvature, scale of the values
TENSORS = [
    ("table", "embedding", 4, 3, -1, 0.5, 1.0),
    ("block0.matrix", "matrix", 4, 3, 0, 1.0, 1e-2),
    ("block0.bias", "vector", 1, 3, 0, 2.0, 10.0),
    ("block1.matrix", "matrix", 3, 4, 1, 0.25, 1e-3),
    ("block1.bias", "vector", 1, 3, 1, 1.5, 1.0),
    ("norm", "vector", 1, 3, 2, 1.0, 1.0),
]
LEARNING_RATE = np.float32(0.1)


def set_tensors(tensors):
    """All traces from here on have these tensors."""
    global TENSORS, SIZES, CURVATURE, SCALE, OFFSETS
    TENSORS = tensors
    SIZES = [t[2] * t[3] for t in TENSORS]
    CURVATURE = np.repeat([t[5] for t in TENSORS], SIZES)
    SCALE = np.repeat([t[6] for t in TENSORS], SIZES)
    OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


set_tensors(TENSORS)


def pieces(tensors=None):
    """Where these tensors lie, or all."""
    return [slice(OFFSETS[t], OFFSETS[t + 1]) for t in (range(len(TENSORS)) if tensors is None else tensors)]


def padded_places():
    """Where the values lie in this library's rows, in which zeros follow each tensor up to a multiple of 16 values."""
    padded = [-(-size // 16) * 16 for size in SIZES]
    begins = np.concatenate([[0], np.cumsum(padded)])
    return np.concatenate([begin + np.arange(size) for begin, size in zip(begins, SIZES)])


def rounded(x):
    """What a float can hold: the trace and the reference start from the same numbers."""
    return np.asarray(x, dtype=np.float32).astype(np.float64)


class Tie(Exception):
    """A code that arithmetic in another order could make another one."""


def dynamic_levels():
    """The 256 numbers of bitsandbytes' create_dynamic_map: in decade i of 0 to 6, times 10^(i-6), the middles of 2^i equal
    parts of [0.1, 1], with both signs; 0 and 1."""
    positive = [10.0**(i - 6) * (0.1 + 0.9 * (j + 0.5) / 2**i) for i in range(7) for j in range(2**i)]
    return np.array([-x for x in reversed(positive)] + [0.0] + positive + [1.0])


def dynamic_int8(x, block=4096):
    """What its quantize_blockwise and dequantize_blockwise make of x: the nearest level of each value over its block's
    largest magnitude."""
    flat, levels = np.asarray(x, dtype=np.float64).ravel(), dynamic_levels()
    out = np.empty_like(flat)
    for at in range(0, flat.size, block):
        part = flat[at : at + block]
        most = np.abs(part).max()
        distance = np.abs(part[:, None] / most - levels)
        first, second = np.argsort(distance, axis=1)[:, :2].T
        margin = np.take_along_axis(distance, second[:, None], 1) - np.take_along_axis(distance, first[:, None], 1)
        if np.any((margin[:, 0] < 2e-6) & (np.abs(levels[first] - levels[second]) > 1e-5)):  # less is less than is looked at
            raise Tie
        out[at : at + block] = levels[first] * most
    return out.reshape(np.shape(x))


class Trace:
    def __init__(self, name, peers, steps, seed=1, learning_rate=LEARNING_RATE):
        self.tensors = TENSORS
        self.name, self.lines = name, []
        self.random = np.random.default_rng(seed)
        self.start = rounded(self.random.normal(size=sum(SIZES)) * SCALE)
        self.centres = {}
        self.put("peers", [peers])
        self.put("steps", steps)
        self.put("learning_rate", [learning_rate])
        self.put("start", self.start)

    def put(self, name, values):
        self.lines.append(f"{name} : " + " ".join(f"{np.float32(v):.9g}" for v in np.ravel(values)))

    def centre(self, peer, step):
        if (peer, step) not in self.centres:
            shift = np.random.default_rng([peer, 7]).normal(size=SCALE.size)  # peers have different data
            noise = np.random.default_rng([peer, step]).normal(size=SCALE.size)
            self.centres[peer, step] = rounded((shift + 0.5 * noise) * SCALE)
            self.put(f"centre {peer} {step}", self.centres[peer, step])
        return self.centres[peer, step]

    def gradient(self, theta, peer, step):
        return CURVATURE * (theta - self.centre(peer, step))

    def write(self, about):
        folder = pathlib.Path(__file__).parent
        writer = f"Written by {pathlib.Path(sys.argv[0]).name}. "
        head = [f"# {line}".rstrip() for line in (writer + inspect.cleandoc(about)).splitlines()]
        tensors = ["tensor " + " ".join(str(x) for x in t[:6]) for t in self.tensors]
        (folder / f"{self.name}.golden").write_text("\n".join(head + tensors + self.lines) + "\n")


class Peer:
    """One that trains: its own parameters and how many inner steps it has made."""

    def __init__(self, trace, index, theta):
        self.trace, self.index, self.theta, self.step = trace, index, theta.copy(), 0

    def train(self, steps=1, note=True, sgd_rate=float(LEARNING_RATE)):
        for _ in range(steps):
            self.theta = self.theta - sgd_rate * self.trace.gradient(self.theta, self.index, self.step)
            self.step += 1
            if note:
                self.note()
        return self

    def rest(self, steps=1):
        for _ in range(steps):
            self.step += 1
            self.note()

    def note(self, what="live"):
        """The last word on a step counts."""
        name = f"{what} {self.index} {self.step} :"
        self.trace.lines = [line for line in self.trace.lines if not line.startswith(name)]
        self.trace.put(name[:-2], self.theta)


def events(text):
    """[("push", 0), ...] of "push 0; ..."."""
    return [(what, int(who)) for what, who in (event.split() for event in text.split(";"))]


# ---- asynchronous ----------------------------------------------------------------------------------------------------


class Nesterov:
    """torch.optim.SGD(nesterov=True)."""

    def __init__(self, rate, momentum):
        self.rate, self.momentum, self.buffer = rate, momentum, 0.0

    def step(self, theta, delta):
        self.buffer = self.momentum * self.buffer + delta
        return theta - self.rate * (delta + self.momentum * self.buffer)


class DelayedNesterov:
    """Liu et al. 2024 (2401.09135), algorithm 3, as src/halos/opt.py has it: c = 0."""

    def __init__(self, rate, beta, period):
        self.rate, self.beta, self.period = rate, beta, period
        self.momentum, self.buffer, self.pushes = 0.0, 0.0, 0

    def step(self, theta, delta):
        self.buffer = self.buffer + delta
        self.pushes += 1
        if self.pushes % self.period != 0:
            return theta - self.rate * delta / self.period
        self.momentum = self.beta * self.momentum + self.buffer / self.period
        self.buffer = 0.0
        return theta - self.rate * (self.beta * self.momentum + delta / self.period)


def halos():
    """HALoS: Kim et al. 2025 (2506.04531); github.com/utnslab/halos, commit 4b5bf73768c1e039bd1f64c3a310025119f05e20:
    src/halos/simulation/exec_halos.py (LocalParameterServer), ps.py, opt.py.

    H = 2 and K = 3 in place of 8 and 32, periods of 4 and 2, rates per push 0.2 and 0.15, momenta 0.9 and 0.5, a share of
    0.25. The code counts K pushes from the moment in which the global parameters were mixed in, and what it sends is how
    far the region has come since then: pushes between a region's own and its answer move the region and are sent by nobody.
    The order of what reaches whom is given: `push p`, peer p's push reaches its region's hub and the answer is under way;
    `global r`, what region r sent reaches the global hub; `mix r`, the answer reaches region r. Peers 0 and 1 are region 0,
    where the global hub is, 2 and 3 region 1.
    """
    order = events("""
    push 0; push 2; push 1; push 0; global 0; mix 0; push 3; push 2; push 1; push 0; push 2; global 1; push 0;
    global 0; mix 0; push 3; push 2; push 1; push 0; push 2; push 1; global 0; mix 0; push 0; push 3; push 2; mix
    1; push 0; push 2; push 1; global 0; mix 0; push 0; push 3; push 2; push 1; push 0; global 0; mix 0; push 2;
    global 1; push 0; push 3; push 2""")
    local_steps, pushes, share = 2, 3, 0.25
    steps = [local_steps * sum(1 for what, who in order if (what, who) == ("push", p)) for p in range(4)]
    trace = Trace("halos", 4, steps)
    trace.lines += ["# order: " + ", ".join(f"{what} {who}" for what, who in order)]
    peers = [Peer(trace, p, trace.start) for p in range(4)]
    region = [{"theta": trace.start, "optimizer": DelayedNesterov(0.2 * 4, 0.9, 4), "version": 0, "merged_version": 0,
               "merged": trace.start} for _ in range(2)]
    shared, optimizer, sent, answers = trace.start, DelayedNesterov(0.15 * 2, 0.5, 2), {}, {}
    pulled = [trace.start] * 4
    for what, who in order:
        if what == "push":
            r = region[who // 2]
            peers[who].train(local_steps)
            r["theta"] = r["optimizer"].step(r["theta"], pulled[who] - peers[who].theta)
            r["version"] += 1
            if r["version"] == r["merged_version"] + pushes:
                sent[who // 2] = r["merged"] - r["theta"]
            pulled[who] = peers[who].theta = r["theta"]
            peers[who].note()
        elif what == "global":
            shared = optimizer.step(shared, sent[who])
            answers[who] = shared
        else:
            r = region[who]
            r["theta"] = (1 - share) * r["theta"] + share * answers[who]
            r["merged"], r["merged_version"] = r["theta"], r["version"]
    return trace



def async_local_sgd():
    """Async Local-SGD: Liu et al. 2024 (2401.09135), from descriptions of it: a worker's push is applied when it arrives, by delayed
    Nesterov, and the worker goes on from the result (no grace period); dynamic local updates: floor(v / max v · H) steps.
    The momentum is that of the trace of HALoS.

    H = 6, N = 3, ε = 0.7, β = 0.9, c = 0. Steps of three workers take 20, 38 and 29 ms, so after a first round of 6 steps
    each, when no speed is known, they make 6, 3 and 4. A push and its answer travel for 1 ms each, but not from the first
    worker, where the server is.
    """
    step_time, travel, most, pushes = [20, 38, 29], [0, 1, 1], 6, [7, 6, 6]
    later = [int(most * min(step_time) / t) for t in step_time]
    trace = Trace("async_local_sgd", 3, [most + (n - 1) * k for n, k in zip(pushes, later)])
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    arrivals = []
    for p in range(3):
        time = 0
        for push in range(pushes[p]):
            time += step_time[p] * (later[p] if push else most) + travel[p]
            arrivals.append((time, p, push))
            time += travel[p]
    arrivals.sort()
    assert all(b[0] - a[0] > 0 for a, b in zip(arrivals, arrivals[1:])), "a tie has no order"
    shared, optimizer, pulled = trace.start, DelayedNesterov(0.7, 0.9, 3), [trace.start] * 3
    for _, p, push in arrivals:
        peers[p].train(later[p] if push else most)
        shared = optimizer.step(shared, pulled[p] - peers[p].theta)
        pulled[p] = peers[p].theta = shared
        peers[p].note()
    trace.lines.append("# order: " + ", ".join(str(p) for _, p, _ in arrivals))
    return trace


def four_bits(row):
    """-7 .. 7 times a scale, the largest magnitude over 7: what survives of a tensor."""
    scale = np.float32(np.max(np.abs(row))) / np.float32(7)
    return np.rint(np.float32(row) * (np.float32(1) / scale)).astype(np.float64) * float(scale)


def radial_directional(rows, weights):
    """(Σ w |v| / Σ w) · φ(Σ w φ(v) / Σ w)."""
    radius = sum(w * np.linalg.norm(v) for v, w in zip(rows, weights)) / sum(weights)
    direction = sum(w * v / np.linalg.norm(v) for v, w in zip(rows, weights))
    return radius * direction / np.linalg.norm(direction)


def decoupled_diloco():
    """Decoupled DiLoCo: Douillard et al. 2026 (2604.21428). No code of the authors; two independent ones agree with each
    other on what they cite from the paper: github.com/deltawave-tech/pcp, commit 91e3c3bda56daae89ce3de1cf5165e038dd780ee
    (src/algorithms/decoupled_merge.zig), and the merge.rs of a Rust syncer: weights tokens · tokens / steps, both counted
    since the learner last received the fragment; radial-directional averaging, tensor by tensor, of all but embeddings,
    which are averaged as they are (the paper prints the radial factor as a vector; norms are meant); Nesterov on the
    result, per fragment.

    All three learners are in every merge (K = 3): with fewer, the library takes the outer step in parts, which nobody
    published. H = 6, six fragments of one tensor each, τ = 2, α = 0.5, outer rate 0.7, momentum 0.9; batches of 1, 2 and 4
    sequences; rows travel as 4-bit integers with one scale a tensor.
    """
    period, late, peer_count, steps, batch = 6, 2, 3, 18, [1, 2, 4]
    trace = Trace("decoupled_diloco", peer_count, [steps] * peer_count)
    trace.put("batch", batch)
    peers = [Peer(trace, p, trace.start) for p in range(peer_count)]
    shared, anchors = trace.start.copy(), trace.start.copy()
    optimizers = [Nesterov(0.7, 0.9) for _ in SIZES]
    count, tokens = np.zeros((peer_count, len(SIZES))), np.zeros((peer_count, len(SIZES)))
    for step in range(1, steps + 1):
        for peer in peers:
            peer.train()
            count[peer.index] += 1
            tokens[peer.index] += batch[peer.index]
        for f, where in enumerate(pieces()):
            if step - late >= f + 1 and (step - late - f - 1) % period == 0:
                for peer in peers:
                    peer.theta[where] = 0.5 * peer.theta[where] + 0.5 * shared[where]
                count[:, f], tokens[:, f], anchors[where] = 0, 0, shared[where]
            if step >= f + 1 and (step - f - 1) % period == 0:
                rows = [four_bits(anchors[where] - peer.theta[where]) for peer in peers]
                weights = tokens[:, f] ** 2 / count[:, f]
                if TENSORS[f][1] == "embedding":
                    merged = sum(w * row for row, w in zip(rows, weights)) / sum(weights)
                else:
                    merged = radial_directional(rows, weights)
                shared[where] = optimizers[f].step(shared[where], merged)
        for peer in peers:
            peer.note()
    return trace


def decoupled_diloco_alone():
    """Decoupled DiLoCo (the sources of the trace decoupled_diloco, and the method's statement at junaidaliop.github.io/zij) where a
    merge has one learner: a quorum of 1 and no grace. Θ_p ← OuterOpt(Θ_p, Δ_p) in each merge, whoever is in it: a whole
    step of Nesterov. Weights of one learner cancel, and so do its norm and direction.

    H, fragments, τ, α, rates and codes as there. Steps of three learners take 20, 52 and 63 ms, so that no two of them send
    the same fragment within 8 ms; a row and its answer travel for 1 ms each, but not from the first learner, where the hub
    is. A learner's next row of a fragment is counted from the answer to the one before.
    """
    period, late, step_time, travel, steps = 6, 2, [20, 52, 63], [0, 1, 1], [24, 9, 7]
    trace = Trace("decoupled_diloco_alone", 3, steps)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    shared, optimizers, where = trace.start.copy(), [Nesterov(0.7, 0.9) for _ in SIZES], pieces()
    anchors, answers, sent = [trace.start.copy() for _ in range(3)], {}, {}
    for time, p, step in sorted((s * step_time[p] + travel[p], p, s) for p in range(3) for s in range(1, steps[p] + 1)):
        peer = peers[p].train()
        for f, at in enumerate(where):
            since = step - f - 1
            if since >= late and (since - late) % period == 0:
                peer.theta[at] = 0.5 * peer.theta[at] + 0.5 * answers[p, f]
                anchors[p][at] = answers[p, f]
            if since >= 0 and since % period == 0:
                assert all(abs(time - t) > 8 for t in sent.get(f, [])), "two learners in one merge"
                sent.setdefault(f, []).append(time)
                shared[at] = optimizers[f].step(shared[at], four_bits(anchors[p][at] - peer.theta[at]))
                answers[p, f] = shared[at].copy()
        peer.note()
    return trace


def dlion():
    """DLion: Hong and Chandra 2021 (HPDC '21): weighted dynamic batching. Local batches in proportion to speed, and gradients
    that count by them: w ← w − η Σ LBS_j g_j / Σ LBS_j. The authors published no code; their formula's normalisation may be
    another one (this one leaves all workers with the same w).

    Three workers, 15 sequences a step, speeds 1, 2 and 3: all take 5 in the first step, when nobody knows; then 3, 5 and 7
    (one each, the rest in proportion). All entries are sent (threshold 1e-6): which are is not this trace's subject.
    """
    steps = 6
    trace = Trace("dlion", 3, [steps] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    for step in range(steps):
        batch = np.array([5, 5, 5] if step == 0 else [3, 5, 7])
        shared = sum(n * peer.train().theta for n, peer in zip(batch, peers)) / batch.sum()
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    return trace


# ---- overlapped ------------------------------------------------------------------------------------------------------


def cocodc():
    """CoCoDC: Zhu et al. 2025 (2504.17672); github.com/isaacveg/crosstrain (the first author's), commit
    05b30e6abe31b6444a21e67f72e9b83a59291d30: algorithms/dc_diloco.py, algorithms/shard_utils.py, train.py.

    H = 8 with N = 4 exchanges, so one every floor(H / N) = 2 steps; τ = 2; λ0 = 1, outer rate 0.4, momentum 0.9. Fragments:
    what is in no block, block 0, block 1. When a fragment's mean is there: θ̃ from the outer step, g = staged − live,
    D = θ̃ − staged, live ← θ̃ − (g + λ g⊙g⊙D), for each tensor λ = λ0 |g| / |g⊙g⊙D| (the code cites DC-S3GD, equation
    17). The code divides g⊙g⊙D by 4e-4, which λ takes out again, and adds 1e-8 to the denominator, which keeps it from
    being 0 but bends tensors with tiny steps: not so here. Its comments have the earlier form, with a fixed λ, g over τ and
    D over the interval. Which fragment is next: the first that waited H steps, else the first that never travelled, else
    the largest sum over peers of |shared − live|_1 over waited steps and size.
    """
    period, exchanges, late, peer_count, steps = 8, 4, 2, 3, 20
    trace = Trace("cocodc", peer_count, [steps] * peer_count)
    fragments = [pieces([0, 5]), pieces([1, 2]), pieces([3, 4])]
    peers = [Peer(trace, p, trace.start) for p in range(peer_count)]
    shared = trace.start.copy()
    optimizers = [[Nesterov(0.4, 0.9) for _ in f] for f in fragments]
    sent_at, due_at, staged, order = [0] * 3, [0] * 3, [None] * 3, []
    for step in range(1, steps + 1):
        for peer in peers:
            peer.train()
        for f in range(3):
            if due_at[f] != step:
                continue
            for optimizer, where in zip(optimizers[f], fragments[f]):
                mean = np.mean([shared[where] - theta[where] for theta in staged[f]], axis=0)
                shared[where] = optimizer.step(shared[where], mean)
                for peer, theta in zip(peers, staged[f]):
                    g, d = theta[where] - peer.theta[where], shared[where] - theta[where]
                    scale = np.linalg.norm(g) / np.linalg.norm(g * g * d)
                    peer.theta[where] = shared[where] - (g + scale * g * g * d)
        if step % (period // exchanges) == 0:
            waits = [step - at for at in sent_at]
            moved = [sum(np.sum(np.abs(shared[w] - peer.theta[w])) for peer in peers for w in fragments[f])
                     / waits[f] / sum(w.stop - w.start for w in fragments[f]) for f in range(3)]
            if any(w >= period for w in waits):
                f = [w >= period for w in waits].index(True)
            else:
                f = sent_at.index(0) if 0 in sent_at else int(np.argmax(moved))
            sent_at[f], due_at[f] = step, step + late
            staged[f] = [peer.theta.copy() for peer in peers]
            order.append(f)
        for peer in peers:
            peer.note()
        trace.put(f"shared 0 {step}", shared)
    trace.lines.append(f"# fragments in the order in which they were sent: {order}")
    return trace


# ---- local updates ---------------------------------------------------------------------------------------------------


def sampled_rounds(name, step_server, periods=4):
    """`step_server(w, mean of the drawn peers' parameters)` gives the next w. Who is drawn is the library's rng's choice."""
    drawn, batch, local_steps = [(2, 3), (0, 1), (1, 2), (0, 3)], [1, 2, 3, 4], 3
    trace = Trace(name, 4, [local_steps * periods] * 4)
    trace.put("batch", batch)
    trace.lines.append(f"# drawn: {drawn}")
    shared = trace.start
    peers = [Peer(trace, p, shared) for p in range(4)]
    for chosen in drawn[:periods]:
        for peer in peers:
            if peer.index in chosen:
                peer.train(local_steps)
            else:
                peer.rest(local_steps)
        n = np.array([batch[p] * local_steps for p in chosen])
        mean = sum(k * peers[p].theta for k, p in zip(n, chosen)) / n.sum()
        shared = step_server(shared, mean)
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    return trace


def fedavg():
    """FedAvg: McMahan et al. 2017 (1602.05629, v4), algorithm 1: w ← Σ n_k w_k / Σ n_k over the clients drawn for the round;
    nobody else computes or sends. Earlier versions of the paper divide by the samples of all clients; v4's sum is over the
    drawn ones.

    C = 0.5 of 4 clients, H = 3 local steps of batches of 1, 2, 3 and 4 sequences, so n_k = 3, 6, 9, 12.
    """
    return sampled_rounds("fedavg", lambda w, mean: mean)


def photon():
    """Photon: Sani et al. 2024 (2411.02908): clients drawn and averaged as in FedAvg, with FedMom at the server (Huo et al.
    2020, 2002.02090, algorithm 2): v' = w − η Σ n_k (w − w_k) / Σ n_k, w ← v' + β (v' − v).

    As the trace of FedAvg, with η = 0.8 and β = 0.5.
    """
    state = {}

    def step(w, mean):
        v = w - 0.8 * (w - mean)
        before = state.get("v", w)
        state["v"] = v
        return v + 0.5 * (v - before)

    return sampled_rounds("photon", step)


def co_learning():
    """Co-learning: Xu et al. 2018 (1810.06877): w̄ the plain mean; the number of local steps T doubles when
    |w̄_i − w̄_(i−1)| / |w̄_(i−1)| <= ε; a cyclical learning rate: each round begins with the first rate, which then falls
    exponentially. The authors published no code, and the factor of the fall is not this paper's but chosen.

    Three data centres, T = 2 at first and 8 at most, ε = 0.3, rates η · (1/4)^(j/T).
    """
    steps, tolerance = 22, 0.3
    trace = Trace("co_learning", 3, [steps] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    shared, local_steps, done, rounds = trace.start, 2, 0, []
    while done < steps:
        count = min(local_steps, steps - done)
        for j in range(count):
            for peer in peers:
                peer.train(sgd_rate=float(LEARNING_RATE) * 0.25 ** (j / local_steps))
        done += count
        if count < local_steps:
            break
        rounds.append(local_steps)
        mean = np.mean([peer.theta for peer in peers], axis=0)
        if np.linalg.norm(mean - shared) <= tolerance * np.linalg.norm(shared):
            local_steps = min(2 * local_steps, 8)
        shared = mean
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    trace.lines.append(f"# rounds: {rounds}")
    return trace


def write(traces):
    """Those that the command line names, or all."""
    for make in traces:
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make().write(make.__doc__)


TRACES = [halos, async_local_sgd, decoupled_diloco, decoupled_diloco_alone, dlion, cocodc, fedavg, photon, co_learning]

if __name__ == "__main__":
    write(TRACES)
