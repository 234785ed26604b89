#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of DiLoCo and its kin: python3 make_traces_local.py [NAME...]. As make_traces.py, which see."""
import numpy as np

from make_traces import SIZES, TENSORS, LEARNING_RATE, Nesterov, Peer, Trace, padded_places, pieces, write


class AdamPeer(Peer):
    """Trains by AdamW (Loshchilov and Hutter 2019), whose moments are the peer's own."""
    BETA1, BETA2, EPSILON, DECAY = (float(np.float32(x)) for x in (0.9, 0.95, 1e-8, 0.1))
    RATE = np.float32(0.01)
    DECAYS = np.repeat([float(t[1] != "vector") for t in TENSORS], SIZES)  # this library decays no vectors

    def __init__(self, trace, index, theta):
        super().__init__(trace, index, theta)
        self.first, self.second = np.zeros_like(theta), np.zeros_like(theta)

    def train(self, steps=1, note=True):
        for _ in range(steps):
            g = self.trace.gradient(self.theta, self.index, self.step)
            self.step += 1
            self.first = self.BETA1 * self.first + (1 - self.BETA1) * g
            self.second = self.BETA2 * self.second + (1 - self.BETA2) * g * g
            first = self.first / (1 - self.BETA1 ** self.step)
            second = self.second / (1 - self.BETA2 ** self.step)
            self.theta = self.theta - float(self.RATE) * (
                first / (np.sqrt(second) + self.EPSILON) + self.DECAY * self.DECAYS * self.theta)
            if note:
                self.note()
        return self


def rounds_of(name, local_steps, rounds, outer_step, exchange=lambda deltas: np.mean(deltas, axis=0), peer_type=AdamPeer):
    """DiLoCo's rounds: `outer_step(θ, what the deltas became on the way)` outside."""
    trace = Trace(name, 3, [local_steps * rounds] * 3, learning_rate=peer_type.RATE)
    shared = trace.start
    peers = [peer_type(trace, p, shared) for p in range(3)]
    for _ in range(rounds):
        for peer in peers:
            peer.train(local_steps)
        shared = outer_step(shared, exchange([shared - peer.theta for peer in peers]))
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    return trace


def diloco():
    """DiLoCo: Douillard et al. 2023 (2311.08105), algorithm 1, with section 3's optimizers: AdamW inside, whose moments are
    each worker's own and live on; outside Nesterov (torch.optim.SGD(nesterov=True)) on Δ = mean of θ − θ_i.

    Three workers, H = 4, four rounds, outer rate 0.7 and momentum 0.9; inside 0.01, betas 0.9 and 0.95, decay 0.1.
    """
    return rounds_of("diloco", 4, 4, Nesterov(0.7, 0.9).step)


def open_diloco():
    """OpenDiLoCo: Jaghouar et al. 2024 (2407.07852); github.com/PrimeIntellect-ai/OpenDiloco, commit
    a5b7236b269da58276c819098015169d24c3e6d9, open_diloco/hivemind_diloco.py, which averages with hivemind's
    Float16Compression: DiLoCo whose outer gradients travel as IEEE halves to who adds them up, in single precision, and whose
    mean travels back so.

    As the trace of DiLoCo. A peer's own outer gradient and the mean that it made are rounded like all others, so that all
    end with the same parameters, as in DiLoCo's algorithm. hivemind's reducers add their own unrounded, and answer with each
    peer's difference from the mean, rounded: its peers end with parameters that differ in these roundings.
    """
    return rounds_of("open_diloco", 4, 4, Nesterov(0.7, 0.9).step,
                     lambda deltas: halves(np.mean([halves(d) for d in deltas], axis=0)))


def halves(x):
    return np.float32(x).astype(np.float16).astype(np.float64)


def local_sgd():
    """Local SGD: Stich 2018 (1805.09767), algorithm 1: every H steps each worker takes the mean of all workers' parameters.

    Three workers, H = 3, four rounds, plain SGD.
    """
    trace = Trace("local_sgd", 3, [12] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    for _ in range(4):
        shared = np.mean([peer.train(3).theta for peer in peers], axis=0)
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    return trace


def des_loc():
    """DES-LOC: Iacob et al. 2025 (2505.22549), algorithm 1, with Adam: parameters, first and second moments are each the mean
    over all workers every K_x, K_u and K_v steps. The authors published no code; a public one for torchft (DesLoc, a hook after
    each step of the optimizer) counts steps as here: a state is averaged after its K-th step, then after the next K. The paper
    averages before step t, t counted from 0, which is the same.

    Three workers, K_x = 2, K_u = 3, K_v = 4 (the paper advises K_x, 3 K_x, 6 K_x), 12 steps; AdamW at 0.01, betas 0.9 and
    0.95, decay 0.1. The paper clips each entry of a gradient at ρ, which nothing here reaches.
    """
    trace = Trace("des_loc", 3, [12] * 3, learning_rate=AdamPeer.RATE)
    peers = [AdamPeer(trace, p, trace.start) for p in range(3)]
    for step in range(1, 13):
        for peer in peers:
            peer.train()
        for state, period in [("theta", 2), ("first", 3), ("second", 4)]:
            if step % period == 0:
                mean = np.mean([getattr(peer, state) for peer in peers], axis=0)
                for peer in peers:
                    setattr(peer, state, mean.copy())
        for peer in peers:
            peer.note()
    return trace


# ---- overlapped ------------------------------------------------------------------------------------------------------


def eager_diloco():
    """Eager DiLoCo: Kale et al. 2025 (2502.12996), eager updates: the average of a round's outer gradients is there
    when the next round ends, and until then a worker has its own part of it: in round t each takes the outer step with
    (1/M) (Δ_m^t − Δ_m^(t−1)) + mean of Δ^(t−1), where the first round has no t − 1. Each worker's outer parameters and
    momentum are its own, as what it feeds them is. The authors published no code.

    Three workers, H = 3, five rounds; outer rate 0.7 and momentum 0.9; plain SGD inside.
    """
    local_steps, rounds, count = 3, 5, 3
    trace = Trace("eager_diloco", count, [local_steps * rounds] * count)
    peers = [Peer(trace, p, trace.start) for p in range(count)]
    outer = [trace.start.copy() for _ in peers]
    optimizers = [Nesterov(0.7, 0.9) for _ in peers]
    before = [np.zeros_like(trace.start) for _ in peers]
    for _ in range(rounds):
        deltas = [outer[p] - peer.train(local_steps).theta for p, peer in enumerate(peers)]
        for p, peer in enumerate(peers):
            mixed = (deltas[p] - before[p]) / count + np.mean(before, axis=0)
            outer[p] = optimizers[p].step(outer[p], mixed)
            peer.theta = outer[p].copy()
            peer.note()
        before = deltas
    return trace


def e3m0(tensors):
    """The nearest of 0, ±T/64, ±T/32, ... ±T, with T the power of two nearest to the largest magnitude; halfway goes up."""
    top = nearest_power(max(np.max(np.abs(x)) for x in tensors))
    levels = [np.clip(nearest_power(np.maximum(np.abs(x), 1e-300)), top / 64, top) for x in tensors]
    return [np.where(np.abs(x) < top / 128, 0.0, np.copysign(level, x)) for x, level in zip(tensors, levels)]


def nearest_power(x):
    below = 2.0 ** np.floor(np.log2(x))
    return np.where(x >= 1.5 * below, 2 * below, below)


FRAGMENTS = [pieces([0, 5]), pieces([1, 2]), pieces([3, 4])]


def streaming_diloco():
    """Streaming DiLoCo: Douillard et al. 2025 (2501.18512), algorithm 2: fragment p is sent when (t − t_p) mod H = 0, received τ
    steps later, takes its outer step from the outer parameters of its last turn, and a worker goes on with
    α θ_m + (1 − α) θ. Deltas travel as E3M0, unreduced, and are summed in single precision (section 2.3). No code of the
    authors.

    The paper says neither how fragments' turns are spread over H nor what scale an E3M0 number has: here a turn every H / P
    steps, and one scale for 256 values of a fragment (all of it, in this model), the power of two nearest to the largest
    magnitude. Three workers, H = 6, P = 3 fragments, τ = 1, α = 0.5, outer rate 0.4, momentum 0.9, 20 steps.
    """
    period, late, share, steps, first = 6, 1, 0.5, 20, (2, 4, 6)
    trace = Trace("streaming_diloco", 3, [steps] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    shared, sent = trace.start.copy(), {}
    optimizers = {w.start: Nesterov(0.4, 0.9) for f in FRAGMENTS for w in f}
    for step in range(1, steps + 1):
        for peer in peers:
            peer.train()
        for f, where in enumerate(FRAGMENTS):
            if step - late >= first[f] and (step - late - first[f]) % period == 0:
                for w in where:
                    shared[w] = optimizers[w.start].step(shared[w], sent.pop(w.start))
                    for peer in peers:
                        peer.theta[w] = share * peer.theta[w] + (1 - share) * shared[w]
            if step >= first[f] and (step - first[f]) % period == 0:
                deltas = [e3m0([shared[w] - peer.theta[w] for w in where]) for peer in peers]
                for k, w in enumerate(where):
                    sent[w.start] = np.mean([delta[k] for delta in deltas], axis=0)
        for peer in peers:
            peer.note()
        trace.put(f"shared 0 {step}", shared)
    return trace


# ---- INTELLECT-1 -----------------------------------------------------------------------------------------------------


def int8(x):
    """hivemind's Uniform8BitQuantization, which PRIME took over: a code for each value, here what it stands for."""
    x = np.float32(x)
    centred = x - x.mean(dtype=np.float64)
    width = 6 * np.linalg.norm(centred) / np.sqrt(x.size - 1) / 256
    codes = np.clip(np.rint(centred / width) + 128, 0, 255).astype(int)
    sums = np.bincount(codes, weights=x, minlength=256)
    return (sums / np.maximum(np.bincount(codes, minlength=256), 1))[codes]


def intellect1():
    """INTELLECT-1: Jaghouar et al. 2024 (2412.01152), and their PRIME (zeroband): DiLoCo whose outer gradients go around a ring
    of 8-bit codes (collectives.py, ring_allreduce_py; compression.py, uniform_8bit_quantize): a peer encodes its own part,
    the next decodes it, adds its own in single precision and encodes the sum, ...; the last divides, encodes the mean and
    takes what that decodes to, as all others do. Codes: 256 buckets of equal width about the mean, together 6 standard
    deviations (n − 1) wide, each decoded to the mean of its values.

    Three workers, H = 4, four rounds, outer rate 0.7 and momentum 0.9, plain SGD inside, so that outer gradients of all
    scales share buckets. A chunk of the ring is at most 65536 values here and what remains one, so this model is in one,
    which begins at worker 2 and ends at worker 1; PRIME cuts the row into 2 chunks for each worker, of any size. Every tensor
    is followed by zeros up to a multiple of 16 values, which count as all values do.
    """
    class SgdPeer(Peer):
        RATE = LEARNING_RATE

    places = padded_places()

    def ring(deltas):
        rows = np.zeros((3, 96))
        rows[:, places] = deltas
        return int8((rows[1] + int8(rows[0] + int8(rows[2]))) / 3)[places]

    return rounds_of("intellect1", 4, 4, Nesterov(0.7, 0.9).step, ring, SgdPeer)


TRACES = [diloco, open_diloco, intellect1, local_sgd, des_loc, eager_diloco, streaming_diloco]

if __name__ == "__main__":
    write(TRACES)
