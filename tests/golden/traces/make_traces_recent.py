#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of SNOO, EDiT, Dion and basis rotation: python3 make_traces_recent.py [NAME...]. As make_traces.py, which see."""
import math

import numpy as np

import make_traces
from make_traces import LEARNING_RATE, Nesterov, Peer, Trace, pieces, rounded, write
from make_traces_compressed import POWER_SGD_TENSORS
from make_traces_local import AdamPeer


def snoo():
    """SNOO: Kallusky et al. 2025 (2510.15830), as github.com/junaidaliop/zij, canon/math/snoo.md, has it (the authors' code was
    not found): an optimizer trains the fast weights for K steps; then s = w − w̃, b ← μ b + s, w ← w − η (μ b + s), and
    w̃ ← w.

    K = 4, four rounds and two steps more, η = 0.7, μ = 0.9; inside AdamW at 0.01, betas 0.9 and 0.95, decay 0.1, whose moments
    live on. Three workers average their gradients in every step, so that the inner optimizer's is that of their common batch:
    what w is to them nobody has to be told.
    """
    local_steps, steps = 4, 18
    trace = Trace("snoo", 3, [steps] * 3, learning_rate=AdamPeer.RATE)
    peers = [AdamPeer(trace, p, trace.start) for p in range(3)]
    together = AdamPeer(trace, 0, trace.start)
    own_gradient, outer, slow = trace.gradient, Nesterov(0.7, 0.9), trace.start
    for step in range(1, steps + 1):
        trace.gradient = lambda theta, _, at: np.mean([own_gradient(theta, p, at) for p in range(3)], axis=0)
        together.train(note=False)
        if step % local_steps == 0:
            slow = outer.step(slow, slow - together.theta)
            together.theta = slow.copy()
        for peer in peers:
            peer.theta, peer.step = together.theta, step
            peer.note()
    return trace


# ---- EDiT ------------------------------------------------------------------------------------------------------------


class Detector:
    """atorch/local_sgd/anomaly_detection.py, OnlineDynamicEWMA: how a worker knows that a norm is out of the ordinary."""

    def __init__(self, alpha, warm_up, threshold):
        self.alpha, self.warm_up, self.threshold = alpha, warm_up, threshold
        self.mean, self.variance, self.count, self.scores = 0.0, 0.0, 0, []

    def score(self, value):
        if self.variance == 0 or self.count < self.warm_up:
            return 0.0
        return (value - self.mean) / math.sqrt(self.variance)

    def is_outlier(self, value):
        if self.count < self.warm_up:
            return False
        wider = max(1.0, float(np.std(self.scores, ddof=1)))
        return self.score(value) > self.threshold * wider

    def update(self, value):
        self.count += 1
        before = value - self.mean
        self.mean += self.alpha * before
        after = value - self.mean
        self.variance = (1 - self.alpha) * (self.variance + self.alpha * before * after)
        self.scores = (self.scores + [self.score(value)])[-self.warm_up:]


def edit():
    """EDiT: Cheng et al. 2024 (2412.07210); its authors' code, github.com/intelligent-machine-learning/dlrover, atorch/atorch/
    local_sgd: HSDP/_runtime_utils.py (_sync_sharded_params), anomaly_detection.py (commit a73153087d8faeb5e1c030ff557b84f843ae39ad
    and later ones), reduce_methods/base.py and linear.py. Every
    H steps, module by module: Δ_i = θ − θ_i; a worker whose |Δ_i| is an outlier among its own of before sends zeros; Δ = Σ w_i
    Δ_i with w = softmax of −|Δ_i| over those that are none; Δ ← Δ · min(1, φ / (|Δ| + 1e-6)); θ ← outer(θ, Δ), θ_i ← θ. Where
    all were outliers, Δ is zero, and there is no outer step at all.

    Modules are blocks, and all that lies outside of blocks is one. Three workers, H = 2, 12 rounds, φ = 1.5, statistics with
    α = 0.25, a warm-up of 3 and a threshold of 1.5 (the code's defaults are 0.02, 120 and 3), outer Nesterov with 0.7 and 0.8,
    plain SGD inside. Centres of worker 1 jump in step 11, those of all in step 17, so that both cases happen. An outlier's norm goes into the
    statistics as it is: the code adds a million to it first (in place, for the softmax), after which nothing is an outlier for
    as long as 1 / α rounds. Its warm-up steps of synchronous training are the trace edit_synchronous; sharding inside a worker is not here.
    """
    local_steps, rounds, clip = 2, 12, 1.5
    trace = Trace("edit", 3, [local_steps * rounds] * 3)
    for peer, step, times in [(1, 10, 40.0)] + [(p, 16, 200.0) for p in range(3)]:
        trace.centres[peer, step] = trace.centre(peer, step) * times
        trace.lines.pop()
        trace.centres[peer, step] = np.float32(trace.centres[peer, step]).astype(np.float64)
        trace.put(f"centre {peer} {step}", trace.centres[peer, step])
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    merge = Penalised(trace.start, clip)
    return penalised_rounds(trace, peers, merge, local_steps, rounds)


def edit_synchronous():
    """EDiT with synchronous first steps: the sources of the trace edit, HSDP/_runtime_utils.py (_sync_if_needed and
    local_sgd_warmup_steps): in the first W steps workers average their gradients, as without local steps; the shared parameters are what
    they then have, and H steps later they exchange for the first time. Post-local SGD (Lin et al. 2018, 1808.07217, section 3) has
    the same first phase.

    Three workers, W = 5, H = 2, 6 rounds, the penalty and the outer optimizer of the trace edit, AdamW inside, whose state is
    the same on all when local steps begin and goes on. In that code an exchange of zeros at step W enters the statistics of
    norms; here they begin with the first round.
    """
    first, local_steps, rounds = 5, 2, 6
    trace = Trace("edit_synchronous", 3, [first + local_steps * rounds] * 3, learning_rate=AdamPeer.RATE)
    own_gradient = trace.gradient
    peers = [AdamPeer(trace, p, trace.start) for p in range(3)]
    for _ in range(first):
        mean = np.mean([own_gradient(p.theta, p.index, p.step) for p in peers], axis=0)
        trace.gradient = lambda *_: mean
        for peer in peers:
            peer.train()
    trace.gradient = own_gradient
    merge = Penalised(peers[0].theta, 1.5)
    return penalised_rounds(trace, peers, merge, local_steps, rounds)


def penalised_rounds(trace, peers, merge, local_steps, rounds):
    for _ in range(rounds):
        for peer in peers:
            peer.train(local_steps)
        merge.exchange(peers)
        for peer in peers:
            peer.note()
    trace.lines.append(f"# outliers: {merge.seen}")
    return trace


class Penalised:
    """What workers of EDiT do together, module by module, with those of them who have anything to say."""

    def __init__(self, start, clip):
        self.shared, self.clip, self.rounds, self.seen = start.copy(), clip, 0, []
        self.where = [np.concatenate([np.arange(s.start, s.stop) for s in pieces(m)]) for m in ([0, 5], [1, 2], [3, 4])]
        self.optimizers = [Nesterov(0.7, 0.8) for _ in self.where]
        self.detectors = [[Detector(0.25, 3, 1.5) for _ in range(3)] for _ in self.where]

    def exchange(self, peers, speakers=(0, 1, 2)):
        for m, at in enumerate(self.where):
            deltas = [self.shared[at] - peers[p].theta[at] for p in speakers]
            norms = [float(np.linalg.norm(d)) for d in deltas]
            bad = [self.detectors[m][p].is_outlier(norm) for p, norm in zip(speakers, norms)]
            for p, norm in zip(speakers, norms):
                self.detectors[m][p].update(norm)
            if any(bad):
                self.seen.append(f"round {self.rounds} module {m}: {[p for p, b in zip(speakers, bad) if b]}")
            if not all(bad):
                least = min(n for n, b in zip(norms, bad) if not b)
                weights = np.array([0.0 if b else math.exp(least - n) for n, b in zip(norms, bad)])
                merged = sum(w * d for w, d in zip(weights / weights.sum(), deltas))
                merged = merged * min(1.0, self.clip / (float(np.linalg.norm(merged)) + 1e-6))
                self.shared[at] = self.optimizers[m].step(self.shared[at], merged)
        self.rounds += 1
        for peer in peers:
            peer.theta = self.shared.copy()


def a_edit():
    """A-EDiT: Cheng et al. 2024 (2412.07210); its authors' code, github.com/intelligent-machine-learning/dlrover, commit
    a73153087d8faeb5e1c030ff557b84f843ae39ad, atorch/atorch/local_sgd/HSDP/_runtime_utils.py (_sync_if_needed with use_async). A
    worker that has trained for T seconds since the workers met last goes to meet them again, and waits. They add up the steps
    that they made since their last exchange: with fewer than a least number nothing is exchanged, and the time counts anew; else
    they exchange as in EDiT (the trace edit), whatever number of steps each has made.

    Three workers with steps of 20, 30 and 50 ms, T = 110 ms, at least 20 steps; the penalty as in the trace edit, and worker 1's
    centres jump in its step 29. Of the end that code says nothing: its program stops all workers at once. Here a worker that
    has made its steps goes to each meeting at once, and says so; one that has made no step since the last exchange has no pseudo-gradient,
    and counts neither in the softmax nor in the statistics. The last meeting is when all have made their steps; what is left is
    exchanged, however few steps that were.
    """
    trace = Trace("a_edit", 3, MEETING_STEPS)
    trace.centres[1, 28] = rounded(trace.centre(1, 28) * 60.0)
    trace.lines[-1:] = []
    trace.put("centre 1 28", trace.centres[1, 28])
    merge = Penalised(trace.start, 1.5)
    meet_by_clock(trace, lambda peers, since: merge.exchange(peers, [p for p in range(3) if since[p] > 0]))
    trace.lines.append(f"# outliers: {merge.seen}")
    return trace


MEETING_STEPS = [44, 46, 41]


def meet_by_clock(trace, exchange, end=lambda peers: None):
    """`exchange(peers, since)`, where each has made that many steps since the exchange before; `end(peers)` after the last."""
    step_ms, period, fewest = [20, 30, 50], 110, 20
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    since, meetings, ended = [0] * 3, [], [False] * 3
    while not all(ended):
        for peer, wanted in zip(peers, MEETING_STEPS):
            passed = 0
            while passed < period and peer.step < wanted:
                peer.train()
                since[peer.index] += 1
                passed += step_ms[peer.index]
            assert abs(passed - period) >= 10  # the simulator's messages take a few
            ended[peer.index] = passed < period
        exchanges = sum(since) >= fewest or (all(ended) and sum(since) > 0)
        meetings.append(f"{since}{'' if exchanges else ' are too few'}")
        if exchanges:
            exchange(peers, since)
            since = [0] * 3
            for peer in peers:
                if not ended[peer.index]:
                    peer.note()
    end(peers)
    for peer in peers:
        trace.put(f"final {peer.index} 0", peer.theta)
    trace.lines.append(f"# steps of each worker at each meeting: {meetings}")


def every_seconds():
    """Meetings as in the trace a_edit, of peers whose pseudo-gradients are averaged by the number of their steps, whose batches
    are alike: no method of a paper, but what this library's trigger does beside another exchange than EDiT's.
    """
    trace = Trace("every_seconds", 3, MEETING_STEPS)

    def exchange(peers, since):
        mean = sum(n * peer.theta for n, peer in zip(since, peers)) / sum(since)
        for peer in peers:
            peer.theta = mean.copy()

    meet_by_clock(trace, exchange)
    return trace


class Late:
    """The mean of one meeting is taken at the next, and that of the last when all have ended. Pseudo-gradients go to an outer
    optimizer, and a worker goes on from what that makes of the shared parameters; what it has trained since is in the row that
    it sends then. Without an optimizer parameters themselves are exchanged: each goes on from where it is, by as much as the
    mean differs from what it sent.
    """

    def __init__(self, start, outer=None):
        self.shared, self.outer, self.mean, self.sent = start.copy(), outer, None, None

    def take(self, peers):
        if self.outer and self.mean is not None:
            self.shared = self.outer.step(self.shared, self.mean)
        for peer in peers:
            if self.outer:
                peer.theta = self.shared.copy()
            elif self.mean is not None:
                peer.theta = peer.theta + self.mean - self.sent[peer.index]

    def exchange(self, peers, since):
        if self.outer:
            self.sent = [self.shared - peer.theta for peer in peers]
            self.take(peers)
        else:
            self.take(peers)
            self.sent = [peer.theta.copy() for peer in peers]
        self.mean = sum(n * row for n, row in zip(since, self.sent)) / sum(since)


def every_seconds_late():
    """As the trace every_seconds, with means that are taken at the meeting after theirs: no method of a paper, but plain delayed
    DiLoCo (Kale et al. 2025, 2502.12996) beside that trigger. Outside Nesterov at 0.7, μ = 0.9.
    """
    trace = Trace("every_seconds_late", 3, MEETING_STEPS)
    late = Late(trace.start, Nesterov(0.7, 0.9))
    meet_by_clock(trace, late.exchange, late.take)
    return trace


def every_seconds_late_parameters():
    """As the trace every_seconds_late, of parameters, which become their mean a meeting late."""
    trace = Trace("every_seconds_late_parameters", 3, MEETING_STEPS)
    late = Late(trace.start)
    meet_by_clock(trace, late.exchange, late.take)
    return trace


# ---- Dion ------------------------------------------------------------------------------------------------------------

# Where Dion's right factors begin, by tensor, vector by vector: drawn by this library.
DION_START = {
    1: [0.178923845, -0.615812778, -0.61490202, 0.664756298, 0.704803944, -0.289189935, 0.963756561, 0.74782896,
        -0.558552742, 0.589926124, 0.0503437519, -0.879177213],
    3: [0.844578385, 0.152643085, 0.863243222, 0.397593856, -0.0298409462, -0.476406336, 0.709296346, 0.430773377,
        -0.413019538, 0.133429527, -0.431465387, -0.13081789],
    5: [-0.790886045, -0.864758134, 0.877903581, -0.338095903, 0.438150167, -0.0749077797, 0.460033178, 0.77925837],
}


def dion():
    """Dion: Ahn, Xu et al. 2025 (2504.05295), algorithm 1; github.com/microsoft/dion, commit
    6e2c58d477722c47472fd9de54b9889d1d5ffb6d, dion/dion_simple.py (dion_update): of each matrix B = M + G; P = orthonormal
    columns of B Q; R = Bᵀ P; M ← B − (1 − μ) P Rᵀ; Q ← R with columns of length one (over the length + 1e-8); X ← X (1 − η λ) −
    η sqrt(rows / columns) P Qᵀ. All that is no matrix of a hidden layer is AdamW's.

    Rank 2, μ = 0.9, decay λ = 0.05, three workers whose gradients are averaged, 8 steps at η = 0.005; AdamW at a quarter of that
    rate, betas 0.9 and 0.95, decay 0.1 for the table. P Qᵀ and P Rᵀ do not depend on the signs that a QR
    decomposition leaves open.
    """
    make_traces.set_tensors(POWER_SGD_TENSORS)
    tensors, rate, momentum, decay, share = make_traces.TENSORS, np.float32(0.005), 0.9, 0.05, 0.25
    trace = Trace("dion", 3, [8] * 3, learning_rate=rate)
    theta = trace.start.copy()
    peers = [Peer(trace, p, theta) for p in range(3)]
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    right = {t: np.reshape(q, (2, tensors[t][3])).T for t, q in DION_START.items()}
    for step in range(1, 9):
        g = np.mean([trace.gradient(theta, p, step - 1) for p in range(3)], axis=0)
        for t, at in enumerate(pieces()):
            rows, columns = tensors[t][2:4]
            if tensors[t][1] == "matrix":
                b = (first[at] + g[at]).reshape(rows, columns)
                p = np.linalg.qr(b @ right[t])[0]
                r = b.T @ p
                first[at] = (b - (1 - momentum) * p @ r.T).ravel()
                right[t] = r / (np.linalg.norm(r, axis=0, keepdims=True) + 1e-8)
                moved = (p @ right[t].T).ravel() * math.sqrt(rows / columns)
                theta[at] = theta[at] * (1 - float(rate) * decay) - float(rate) * moved
            else:
                first[at] = 0.9 * first[at] + 0.1 * g[at]
                second[at] = 0.95 * second[at] + 0.05 * g[at] ** 2
                moved = first[at] / (1 - 0.9 ** step) / (np.sqrt(second[at] / (1 - 0.95 ** step)) + 1e-8)
                moved = moved + (0.1 * theta[at] if tensors[t][1] == "embedding" else 0.0)
                theta[at] = theta[at] - float(rate) * share * moved
        for peer in peers:
            peer.theta, peer.step = theta.copy(), step
            peer.note()
    return trace


class Rotated:
    """optim/basis_rotation.py, BasisRotation, of one matrix; `of_momentum`: with approx_source="1st"."""
    BETA1, BETA2, DECAY = (float(np.float32(x)) for x in (0.9, 0.95, 0.01))
    EPSILON, EVERY = float(np.float32(1e-3)), 4

    def __init__(self, rows, columns, one_sided, of_momentum=False):
        self.of_momentum = of_momentum
        self.steps, self.first, self.second = 0, np.zeros((rows, columns)), np.zeros((rows, columns))
        left = not one_sided or rows < columns
        right = not one_sided or rows >= columns
        self.covariance = [np.zeros((rows, rows)) if left else None, np.zeros((columns, columns)) if right else None]
        self.basis = [None, None]

    def find_basis(self, side):
        covariance, basis = self.covariance[side], self.basis[side]
        if covariance is None:
            return
        if basis is None:
            self.basis[side] = np.linalg.eigh(covariance)[1][:, ::-1]
            return
        order = np.argsort(-np.diag(basis.T @ covariance @ basis))
        self.second = np.take(self.second, order, axis=side)
        self.basis[side] = np.linalg.qr(covariance @ basis[:, order])[0]

    def find_bases_of_momentum(self):
        """approx_source "1st", both sides: of M, which is this step's already."""
        m, (left, right) = self.first, self.basis
        if left is None:
            u, _, vh = np.linalg.svd(m)
            self.basis = [u, vh.T]
            return
        of_right, of_left = m @ right, m.T @ left
        for image, axis in ((of_right, 1), (of_left, 0)):
            sizes = np.sort((image ** 2).sum(axis=0))
            assert np.all(np.diff(sizes) > 1e-4 * sizes[-1]), "an order that rounding decides"
        columns, rows = (np.argsort(-(image ** 2).sum(axis=0)) for image in (of_right, of_left))
        self.second = np.take(np.take(self.second, columns, axis=1), rows, axis=0)
        self.basis = [np.linalg.qr(of_right[:, columns])[0], np.linalg.qr(of_left[:, rows])[0]]

    def turned(self, x):
        left, right = self.basis
        x = x if left is None else left.T @ x
        return x if right is None else x @ right

    def turned_back(self, x):
        left, right = self.basis
        x = x if right is None else x @ right.T
        return x if left is None else left @ x

    def step(self, value, gradient, rate):
        self.steps += 1
        for side, square in enumerate((gradient @ gradient.T, gradient.T @ gradient)):
            if self.covariance[side] is not None:
                self.covariance[side] = self.BETA2 * self.covariance[side] + (1 - self.BETA2) * square
        self.first = self.BETA1 * self.first + (1 - self.BETA1) * gradient
        if self.steps == 1 or self.steps % self.EVERY == 0:
            if self.of_momentum:
                self.find_bases_of_momentum()
            else:
                self.find_basis(0)
                self.find_basis(1)
        self.second = self.BETA2 * self.second + (1 - self.BETA2) * self.turned(gradient) ** 2
        update = self.turned_back(self.turned(self.first) / (np.sqrt(self.second) + self.EPSILON))
        rate_now = rate * math.sqrt(1 - self.BETA2 ** self.steps) / (1 - self.BETA1 ** self.steps)
        return value * (1 - rate * self.DECAY) - rate_now * update


def clipped(g, most):
    return g * min(1.0, most / (float(np.linalg.norm(g)) + 1e-6))


def rotated(name, one_sided, of_momentum=False, clip=None):
    steps, rate = 14, AdamPeer.RATE
    trace = Trace(name, 3, [steps] * 3, learning_rate=rate)
    theta, tensors = trace.start.copy(), make_traces.TENSORS
    peers = [Peer(trace, p, theta) for p in range(3)]
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    matrices = {t: Rotated(x[2], x[3], one_sided, of_momentum) for t, x in enumerate(tensors) if x[1] == "matrix"}
    beta1, beta2, decay, epsilon = Rotated.BETA1, Rotated.BETA2, Rotated.DECAY, Rotated.EPSILON
    for step in range(1, steps + 1):
        g = np.mean([trace.gradient(theta, p, step - 1) for p in range(3)], axis=0)
        for inside in (True, False) if clip else ():
            group = np.concatenate([np.arange(at.start, at.stop) for t, at in enumerate(pieces()) if (t in matrices) == inside])
            g[group] = clipped(g[group], clip)
        for t, at in enumerate(pieces()):
            shape = tensors[t][2:4]
            if t in matrices:
                theta[at] = matrices[t].step(theta[at].reshape(shape), g[at].reshape(shape), float(rate)).ravel()
                continue
            first[at] = beta1 * first[at] + (1 - beta1) * g[at]
            second[at] = beta2 * second[at] + (1 - beta2) * g[at] ** 2
            moved = first[at] / (1 - beta1 ** step) / (np.sqrt(second[at] / (1 - beta2 ** step)) + epsilon)
            theta[at] = theta[at] - float(rate) * (moved + (decay * theta[at] if tensors[t][1] == "embedding" else 0.0))
        for peer in peers:
            peer.theta, peer.step = theta.copy(), step
            peer.note()
    return trace


def basis_rotation():
    """Basis rotation: Jung, Shin and Lee 2026 (2602.03515), algorithms 1 and 2; the authors' code, github.com/LOG-postech/
    basis-rotation as github.com/joonkyoo/basis-rotation has it, commit a277112be5f9b1d618d964b11075da4a6a31b863: optim/
    basis_rotation.py and optim/optimizer.py. Of each matrix L = β2 L + (1 − β2) G Gᵀ, R likewise of Gᵀ G; in the first step U and V
    are their eigenvectors, largest first; in every T-th one their columns are put in the order of the diagonals of Uᵀ L U and
    Vᵀ R V, second moments with them, and U = QR(L U), V = QR(R V). M = β1 M + (1 − β1) G; v = β2 v + (1 − β2) (Uᵀ G V)²; W ← W (1 − η λ) − η
    sqrt(1 − β2^t) / (1 − β1^t) U ((Uᵀ M V) / (sqrt(v) + ε)) Vᵀ. AdamW for all that is no matrix of a hidden layer. Signs of eigenvectors
    do not matter.

    Both sides (the default), T = 4, 14 steps at 0.01, β1 = 0.9, β2 = 0.95, λ = 0.01, square matrices: of others the longer side has
    directions that no gradient has had yet, which each eigensolver chooses in its own way. In the first step Uᵀ G V is diagonal, and
    what rounding makes of its zeros would be divided by its own size: ε = 1e-3 (the code: 1e-8) leaves them near zero. Three workers
    whose gradients are averaged. The order of stages and the age of gradients are those of the trace nag_pp. The code decays
    vectors, too, and clips matrices and the rest each by a norm of their own.
    """
    make_traces.set_tensors(SQUARE_TENSORS)
    return rotated("basis_rotation", False)


def basis_rotation_one_side():
    """Basis rotation, as the trace basis_rotation, but of the shorter side of each matrix alone (rotation_geometry "uni": the left
    one if there are fewer rows than columns), here of 4 x 3 and 3 x 4. The code renews a right basis alone in every step, as it asks
    whether there is a left one; here it is renewed every T steps, as the paper says.
    """
    make_traces.set_tensors(WIDE_AND_TALL)
    return rotated("basis_rotation_one_side", True)


def basis_rotation_first_order():
    """Basis rotation, as the trace basis_rotation, but with bases of the momentum alone (approx_source "1st"): U and V are M's singular
    vectors in the first step; in every T-th one second moments go with the order of the columns' sizes of M V (along V) and of
    Mᵀ U (along U), and U = QR(M V), V = QR(Mᵀ U). And with gradients clipped as optim/optimizer.py does: matrices of hidden
    layers by their norm, all else by its own, both to 2.
    """
    make_traces.set_tensors(SQUARE_TENSORS)
    return rotated("basis_rotation_first_order", False, True, 2.0)


WIDE_AND_TALL = make_traces.TENSORS
SQUARE_TENSORS = [(n, k, 4, 4, *rest) if k == "matrix" else (n, k, r, c, *rest) for n, k, r, c, *rest in make_traces.TENSORS]

TRACES = [snoo, edit, edit_synchronous, a_edit, every_seconds, every_seconds_late, every_seconds_late_parameters, dion, basis_rotation, basis_rotation_one_side, basis_rotation_first_order]  # all but the first four have tensors of their own

if __name__ == "__main__":
    write(TRACES)
