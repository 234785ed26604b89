#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of presets that part a model: python3 make_traces_models.py [NAME...]. See make_traces.py."""
import numpy as np

from make_traces import Nesterov, Peer, Trace, dynamic_int8, pieces, rounded, write


class Lines(Trace):
    """A trace of another model than make_traces.py's."""

    def __init__(self, name, lines, tensors=()):
        self.name, self.lines, self.tensors = name, lines, tensors


def dipaco():
    """DiPaCo: Douillard et al. 2024 (2403.10616), algorithm 1 with what section 2.7 says of the outer gradient: weights by the
    size of the shards, equations 2 and 3, and a norm that is √P times larger, P the number of paths through the module. No
    code of the authors was found.

    Four paths through two levels of two modules, a block each; what lies in no block is a module of all paths.
    H = 3, shards of 1, 2, 1 and 3, outer rate 0.3, momentum 0.6.
    """
    local_steps, rounds, shards = 3, 4, np.array([1, 2, 1, 3])
    levels = [(pieces([0, 5]), [(0, 1, 2, 3)]), (pieces([1, 2]), [(0, 1), (2, 3)]), (pieces([3, 4]), [(0, 2), (1, 3)])]
    trace = Trace("dipaco", 4, [local_steps * rounds] * 4)
    peers = [Peer(trace, p, trace.start) for p in range(4)]
    shared = [trace.start.copy() for _ in peers]
    optimizers = {}
    for _ in range(rounds):
        for peer in peers:
            peer.train(local_steps)
        for level, (tensors, modules) in enumerate(levels):
            for module in modules:
                share = shards[list(module)] / shards[list(module)].sum()
                for where in tensors:
                    gradient = sum(a * (shared[p][where] - peers[p].theta[where]) for a, p in zip(share, module))
                    gradient = gradient * np.sqrt(len(module))
                    optimizer = optimizers.setdefault((level, module, where.start), Nesterov(0.3, 0.6))
                    moved = optimizer.step(shared[module[0]][where], gradient)
                    for p in module:
                        shared[p][where] = peers[p].theta[where] = moved
        for peer in peers:
            peer.note()
    return trace


class NAdam:
    """torch.optim.NAdam(betas=(0.99, 0.999), momentum_decay=4e-3), without weight decay."""

    def __init__(self, rate):
        self.rate, self.steps, self.product, self.m, self.v = rate, 0, 1.0, 0.0, 0.0

    def step(self, value, gradient):
        self.steps += 1
        now, then = (0.99 * (1 - 0.5 * 0.96 ** (t * 4e-3)) for t in (self.steps, self.steps + 1))
        self.product *= now
        self.m = 0.99 * self.m + 0.01 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient * gradient
        root = np.sqrt(self.v / (1 - 0.999**self.steps)) + 1e-8
        return (value - self.rate * (1 - now) / (1 - self.product) * gradient / root -
                self.rate * then / (1 - self.product * then) * self.m / root)


def late_stages(stages, steps, rate, stashing):
    """What each stage holds after each of its steps. A stage is a block of tests/support/timed_stages.hpp."""
    tokens = [[1 + (5 * step + 3 * i) % 15 for i in range(4)] for step in range(steps)]
    width = 2  # equal values
    theta = [float(b % 3) * 0.25 for b in range(stages)]
    optimizers = [NAdam(rate) for _ in range(stages)]
    seen = [{} for _ in range(stages)]  # of the batches on their way: what came in, the parameter then
    backward = [{} for _ in range(stages + 1)]
    forward = [{} for _ in range(stages + 1)]
    held = [[0.0] * steps for _ in range(stages)]

    def gain(value):
        return 1 + value / 8

    # A stage's step s: forward of batch s, then backward of batch s - d, then an update. In the order of dependences.
    done, lateness = [0] * stages, [stages - 1 - r for r in range(stages)]
    halfway = [False] * stages
    while min(done) < steps:
        for r in range(stages):
            s = done[r]
            if s == steps:
                continue
            if not halfway[r]:
                if r == 0:
                    forward[0][s] = np.array(tokens[s]) / 8
                if s not in forward[r]:
                    continue
                x = forward[r].pop(s)
                seen[r][s] = (x, theta[r])
                forward[r + 1][s] = x * gain(theta[r]) + r % 2
                halfway[r] = True
            batch = s - lateness[r]
            if batch >= 0:
                if r == stages - 1:
                    backward[stages][batch] = forward[stages].pop(batch) / len(tokens[batch])
                if batch not in backward[r + 1]:
                    continue
                d = backward[r + 1].pop(batch)
                x, then = seen[r].pop(batch)
                backward[r][batch] = d * gain(then if stashing else theta[r])
                theta[r] = optimizers[r].step(theta[r], width * np.sum(x * d) / 8)
            held[r][s] = theta[r]
            done[r], halfway[r] = s + 1, False
    return tokens, held


def nag_pp():
    """NAG-PP: Ajanthan et al. 2025 (2505.01099); github.com/PluralisResearch/AsyncPP, commit
    a6918030b92925ac3a48bb7c2fe69e42731a02ba: main_with_runtime.py and run.bash, which run PyTorch's NAdam with beta1 = 0.99 on
    PipeDream's schedule: stage r of p has p - 1 - r forwards more than backwards under way, and each backward is followed by an
    update. `stashed`: a backward uses the parameters of its forward, as the authors' program does; `plain`: those of now, the
    paper's form without weight stashing.

    Three stages of one block each, 12 steps, rate 0.02, no weight decay and no clipping, batches of four tokens.
    """
    steps, lines = 12, []
    for name, stashing in (("stashed", True), ("plain", False)):
        tokens, held = late_stages(3, steps, float(np.float32(0.02)), stashing)
        lines += [f"{name} {r} {s + 1} : {np.float32(held[r][s]):.9g}" for r in range(3) for s in range(steps)]
    lines += [f"tokens {s} : " + " ".join(str(t) for t in tokens[s]) for s in range(steps)]
    return Lines("nag_pp", lines)


def protocol_models():
    """Protocol Models: Ramasinghe et al. 2025 (2506.01260): weights that write into the residual stream start in the span of U
    and stay there under an AdamW whose second moment is one for each vector of the stream, the mean of its squares; of an
    embedding only what training adds lies in the span. From descriptions of the paper; no code was found. That gradients are projected first is
    this library's derivation, from the paper's claim that weights stay; what is trained otherwise moves by AdamW.

    Only the weights' side: that boundaries carry U's coordinates without a loss is tests/presets/subspaces.cpp's. U has 2 of 6
    directions and is given. Weights [width, inputs] have their vectors in columns. Rate 0.01, betas 0.9 and 0.95, epsilon
    1e-8, decay 0.1 of matrices but not of embeddings in part confined, 5 steps.
    """
    random, width, rate, steps = np.random.default_rng(5), 6, float(np.float32(0.01)), 5
    basis = rounded(np.linalg.qr(random.normal(size=(width, 2)))[0])
    inside = basis @ np.linalg.inv(basis.T @ basis) @ basis.T
    tensors = [("wte.weight", "embedding", 5, width, -1, 0.5), ("h.0.mlp.c_fc.weight", "matrix", 8, width, 0, 1.0),
               ("h.0.mlp.c_proj.weight", "matrix", width, 8, 0, 2.0), ("h.0.mlp.c_proj.bias", "vector", 1, width, 0, 1.5)]
    scales = [1.0, 1e-2, 1e-3, 10.0]
    start = [rounded(scale * random.normal(size=(t[2], t[3]))) for t, scale in zip(tensors, scales)]
    trace = Lines("protocol_models", [], tensors)
    trace.put("start", np.concatenate([x.ravel() for x in start]))
    trace.put("basis", basis.T)  # vector by vector
    theta = [x.copy() for x in start]
    theta[2], theta[3] = inside @ theta[2], theta[3] @ inside
    first, second = [np.zeros_like(x) for x in theta], [0.0 for _ in theta]
    for step in range(1, steps + 1):
        centre = [rounded(scale * random.normal(size=x.shape)) for x, scale in zip(theta, scales)]
        trace.put(f"centre 0 {step - 1}", np.concatenate([x.ravel() for x in centre]))
        for i, (x, c) in enumerate(zip(theta, centre)):
            gradient = tensors[i][5] * (x - c)
            if i == 1:
                squares = gradient**2
            else:
                gradient = inside @ gradient if i == 2 else gradient @ inside
                squares = np.mean(gradient**2, axis=0 if i == 2 else 1, keepdims=True)
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.95 * second[i] + 0.05 * squares
            root = np.sqrt(second[i] / (1 - 0.95**step)) + 1e-8
            decay = 0.1 if i in (1, 2) else 0.0
            theta[i] = x * (1 - rate * decay) - rate * first[i] / (1 - 0.9**step) / root
        trace.put(f"live 0 {step}", np.concatenate([x.ravel() for x in theta]))
    return trace


def through_two_stages(theta, batch):
    """The gradients of both blocks, of the mean loss of a token. Between them is a boundary in dynamic 8 bits."""
    width, gradient = 4, [0.0, 0.0]
    for tokens in batch:
        x = np.array(tokens) / 8
        seen = dynamic_int8(x * (1 + theta[0] / 8))
        d = (seen * (1 + theta[1] / 8) + 1) / sum(len(tokens) for tokens in batch)
        gradient[1] += width * np.sum(seen * d) / 8
        gradient[0] += width * np.sum(x * dynamic_int8(d * (1 + theta[1] / 8))) / 8
    return gradient


def swarm():
    """SWARM: Ryabinin et al. 2023 (2301.11913); github.com/yandex-research/swarm, commit f66855f: the peers of a stage sum the
    gradients of all micro-batches of a global batch, whoever had which, and take one step; what crosses between stages is in
    dynamic 8 bits by blocks of 4096, both ways (setup_and_launch_server.sh: --compression BLOCKWISE_8BIT;
    swarm/pipeline/src/compression/quantization.py, which calls bitsandbytes 0.0.23).

    The step is not delayed, nor is it in that program (the paper's experiments delay it by one). Two stages of two peers,
    one block of tests/support/timed_stages.hpp each, 4 steps of 6 micro-batches of four tokens, rate 0.05.
    """
    steps, micro_batches, rate = 4, 6, float(np.float32(0.05))
    theta, lines = [0.0, 0.25], []
    for step in range(steps):
        batch = [[15 - 2 * (m % 3)] + [1 + (step + 2 * i + 3 * m) % 9 for i in range(3)] for m in range(micro_batches)]
        lines.append(f"tokens {step} : " + " ".join(str(t) for tokens in batch for t in tokens))
        theta = [value - rate * g for value, g in zip(theta, through_two_stages(theta, batch))]
    lines += [f"end block{b} : {np.float32(theta[b]):.9g}" for b in range(2)]
    return Lines("swarm", lines)


def diloco_swarm():
    """DiLoCo-SWARM: SWARM's stages (2301.11913) with DiLoCo (2311.08105, algorithm 1) among the peers of each: H inner steps
    without an exchange, then Nesterov's step on the mean of what they moved. There is no paper of the two together.

    Two stages of two peers as in the trace of SWARM, boundaries in its 8 bits; H = 2, outer rate 0.7, momentum 0.9, 3 rounds,
    inner rate 0.02. The micro-batches of a step are alike, so that it does not matter which of them a peer gets: peers then
    move alike, and weights of unequal peers are not in this trace.
    """
    rounds, local_steps, micro_batches, rate = 3, 2, 6, float(np.float32(0.02))
    shared, lines = [0.0, 0.25], []
    optimizers = [Nesterov(0.7, 0.9) for _ in shared]
    for r in range(rounds):
        theta = list(shared)
        for step in range(r * local_steps, (r + 1) * local_steps):
            batch = [[15] + [1 + (3 * step + 2 * i) % 9 for i in range(3)]] * micro_batches
            lines.append(f"tokens {step} : " + " ".join(str(t) for tokens in batch for t in tokens))
            theta = [value - rate * g for value, g in zip(theta, through_two_stages(theta, batch))]
        shared = [optimizer.step(old, old - new) for optimizer, old, new in zip(optimizers, shared, theta)]
    lines += [f"end block{b} : {np.float32(shared[b]):.9g}" for b in range(2)]
    return Lines("diloco_swarm", lines)


def learning_at_home():
    """Learning@home: Ryabinin and Gusev 2020 (2002.04013); github.com/learning-at-home/hivemind, commit
    02184953d95f6182e42318a05c0876c4190dca89: hivemind/moe/server/module_backend.py: a backward computes the expert again with
    the parameters of now, moves them at once, and answers with the input's gradient from before the move. What trainers hold
    themselves is averaged now and then, all alike; how often is not in the paper.

    One expert W2 gelu(W1 x + b1) + b2 of width 3 and 4 hidden, gelu by tanh, SGD at a rate of 0.1 without clipping: four
    backwards of two rows, as from trainers who all made their forwards before the first. And three trainers' own parameters
    by SGD, averaged every 3 steps, 4 times.
    """
    local_steps, rounds = 3, 4
    trace = Trace("learning_at_home", 3, [local_steps * rounds] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    for _ in range(rounds):
        for peer in peers:
            peer.train(local_steps)
        mean = np.mean([peer.theta for peer in peers], axis=0)
        for peer in peers:
            peer.theta = mean.copy()
            peer.note()

    random, rate, width, hidden = np.random.default_rng(9), float(np.float32(0.1)), 3, 4
    shapes = [(hidden, width), (hidden,), (width, hidden), (width,)]
    expert = [rounded(0.5 * random.normal(size=shape)) for shape in shapes]
    trace.put("expert 0", np.concatenate([x.ravel() for x in expert]))
    for k in range(4):
        x, dy = (rounded(random.normal(size=(2, width))) for _ in range(2))
        up, up_bias, down, _ = expert
        h = x @ up.T + up_bias
        inner = np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)
        gelu = 0.5 * h * (1 + np.tanh(inner))
        slope = 0.5 * (1 + np.tanh(inner)) + 0.5 * h / np.cosh(inner)**2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * h**2)
        dh = dy @ down * slope
        gradients = [dh.T @ x, dh.sum(axis=0), dy.T @ gelu, dy.sum(axis=0)]
        trace.put(f"x {k}", x)
        trace.put(f"dy {k}", dy)
        trace.put(f"dx {k}", dh @ up)
        expert = [w - rate * g for w, g in zip(expert, gradients)]
        trace.put(f"expert {k + 1}", np.concatenate([w.ravel() for w in expert]))
    return trace


def protocol_models_boundary():
    """Protocol Models: Ramasinghe et al. 2025 (2506.01260), what crosses a boundary; github.com/PluralisResearch/
    ProtocolNanoGPT, commit 0551bc3b61171a83e41068045367488667e195e0: train_gpt_ssn.py (encode, decode, SubspaceLinear,
    SubspaceEmbedding).

    With U of orthonormal columns, and e what of a token's embedding is fixed and known to all: a stage adds (W x) Uᵀ to the
    residual stream, sends z = (x − e) U, and the next goes on from z Uᵀ + e, which is x; of its gradient g, what crosses is
    g U, and the stage before has (g U) Uᵀ. Width 8, rank 3, 5 rows. Not in this trace: the optimizer. The program trains W
    in the subspace's coordinates; the paper's AdamW with a second moment for each vector is not published as code.
    """
    trace, draw = Lines("protocol_models_boundary", []), np.random.default_rng(3)
    directions, _ = np.linalg.qr(draw.normal(size=(8, 3)))
    directions = np.float32(directions).astype(np.float64)
    fixed = np.float32(draw.normal(size=(5, 8)) * [[1], [10], [0.1], [1], [3]]).astype(np.float64)
    inside = fixed + draw.normal(size=(5, 3)) @ directions.T
    for name, x in [("inside", inside), ("outside", np.float32(inside + draw.normal(size=(5, 8))).astype(np.float64))]:
        trace.put(f"{name} sent", x)
        trace.put(f"{name} arrives", (x - fixed) @ directions @ directions.T + fixed)
    gradient = np.float32(draw.normal(size=(5, 8))).astype(np.float64)
    trace.put("gradient sent", gradient)
    trace.put("gradient arrives", gradient @ directions @ directions.T)
    trace.put("directions", directions.T)
    trace.put("fixed", fixed)
    return trace


def learning_at_home_gate():
    """Learning@home: Ryabinin and Gusev 2020 (2002.04013), the gate of a mixture; github.com/mryab/learning-at-home, commit
    bfcaaf9df4b43f6f400c1581d26ce85ae02661a4: lib/client/gating_function.py. Scores are sums over the axes of the grid, a
    beam search finds the k best experts that are alive, and weights are a softmax over those of them that answered.

    A grid of 3 × 4, k = 3, width 5, 6 rows, expert 7 not there, a second choice in each third row without an answer; what
    experts give is fixed, the loss is half the squared distance of the mixture from a target, and W moves by SGD at 0.1,
    four times. The program's scores have a bias, the library's have none. Not in this trace: that the library's trainers
    average what is theirs, of which the program has nothing.
    """
    sides, chosen, width, rows, gone = (3, 4), 3, 5, 6, 7
    trace, draw = Lines("learning_at_home_gate", []), np.random.default_rng(5)
    weights = np.float32(draw.normal(size=(sum(sides), width))).astype(np.float64)
    outputs = np.float32(draw.normal(size=(12, width)) * [[10.0 ** (e % 3 - 1)] for e in range(12)]).astype(np.float64)
    trace.put("weights", weights)
    trace.put("outputs", outputs)
    for step in range(4):
        x, target = np.float32(draw.normal(size=(2, rows, width))).astype(np.float64)
        trace.put(f"x {step} 0", x)
        trace.put(f"target {step} 0", target)
        gradient, choices = np.zeros_like(weights), []
        for r in range(rows):
            scores = weights @ x[r]
            beam = [((), 0.0)]
            for axis, first in enumerate((0, sides[0])):
                longer = [(e + (p,), score + scores[first + p]) for e, score in beam for p in range(sides[axis])]
                alive = [c for c in longer if axis == 0 or sides[1] * c[0][0] + c[0][1] != gone]
                beam = sorted(alive, key=lambda c: -c[1])[:chosen]
            experts = [sides[1] * e[0] + e[1] for e, _ in beam]
            choices += experts
            there = [i for i in range(chosen) if not (i == 1 and r % 3 == 2)]
            share = np.exp([beam[i][1] for i in there])
            share = share / share.sum()
            given = outputs[[experts[i] for i in there]]
            d_share = given @ (share @ given - target[r])
            d_scores = share * (d_share - share @ d_share)
            for i, d in zip(there, d_scores):
                gradient[beam[i][0][0]] += d * x[r]
                gradient[sides[0] + beam[i][0][1]] += d * x[r]
        weights = weights - np.float64(np.float32(0.1)) * gradient
        trace.put(f"chosen {step} 0", choices)
        trace.put(f"weights {step} 1", weights)
    return trace


TRACES = [dipaco, nag_pp, swarm, diloco_swarm, protocol_models, learning_at_home, protocol_models_boundary, learning_at_home_gate]

if __name__ == "__main__":
    write(TRACES)
