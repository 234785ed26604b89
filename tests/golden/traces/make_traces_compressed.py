#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of compressed exchanges: python3 make_traces_compressed.py [NAME...]. As make_traces.py, which see."""
import numpy as np

import make_traces
from make_traces import LEARNING_RATE, Nesterov, Peer, Trace, padded_places, pieces, rounded, write


def masks_of(text):
    """A line for each step."""
    return [[int(i) for i in line.split()] for line in text.strip().split("\n")]


# ---- SPARTA ----------------------------------------------------------------------------------------------------------

# Which fifth of the parameters is averaged in each step: drawn by this library.
SPARTA_MASKS = """
1 7 10 17 24 27 31 36 38 43
0 1 9 21 24 30 35
1 3 9 10 18 24 25 34
0 5 6 8 10 11 24 27 29 32 39
2 11 21 28 33 39
1 2 10 12 17 18 33 34 39 41
1 6 10 14 18 20 26 27 36 39 41 43
2 14 15 23 26 30 34
8 12 18 29 36 37 43
2 4 6 8 11 13 43
3 9 11 27 28 30 41 43 44
"""


def sparta_steps(name, local_steps=0, outer_step=None):
    """SPARTA after every step; every `local_steps` steps then an outer step from where the last one led."""
    masks = masks_of(SPARTA_MASKS)
    trace = Trace(name, 3, [len(masks)] * 3)
    trace.lines.append(f"# drawn: {masks}")
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    shared = trace.start
    for step, mask in enumerate(masks, 1):
        mean = np.mean([peer.train().theta for peer in peers], axis=0)
        for peer in peers:
            peer.theta[mask] = mean[mask]
        if outer_step is not None and step % local_steps == 0:
            shared = outer_step(shared, shared - np.mean([peer.theta for peer in peers], axis=0))
            for peer in peers:
                peer.theta = shared.copy()
        for peer in peers:
            peer.note()
    return trace


def sparta():
    """SPARTA: Beton et al. 2025 (EXO); github.com/exo-explore/gym, commit 9fa323c26364f4437ffd23517da5d65946003963,
    exogym/strategy/sparta.py (SparseCommunicator, RandomIndexSelector): after each step, the mean over all nodes of those
    parameters that a mask drawn anew, the same for all, has.

    Three nodes, a share of 0.2, 11 steps. Their mask takes each parameter with that probability, this library's just that
    many of all.
    """
    return sparta_steps("sparta")


def sparta_diloco():
    """SPARTA with DiLoCo: github.com/exo-explore/gym, commit 9fa323c26364f4437ffd23517da5d65946003963,
    exogym/strategy/sparta_diloco.py, diloco.py: after each step first SPARTA's exchange, then, every H steps, DiLoCo's.

    Three nodes, a share of 0.2, H = 4, outer rate 0.7, momentum 0.9, 11 steps. In their code the first of DiLoCo's rounds has
    a step more than H, as it counts the step after the exchange.
    """
    return sparta_steps("sparta_diloco", 4, Nesterov(0.7, 0.9).step)


# ---- gradients -------------------------------------------------------------------------------------------------------


def dedloc_rounds(name, step):
    """`step(shared, mean gradient)` makes the shared parameters' step."""
    counts, batch = [(6, 4, 2)] * 3, [1, 2, 3]
    trace = Trace(name, 3, [sum(c[p] for c in counts) for p in range(3)])
    trace.put("batch", batch)
    trace.lines.append(f"# steps of each peer in each round: {counts}")
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    shared = trace.start
    for count in counts:
        total = np.zeros_like(shared)
        for peer in peers:
            for _ in range(count[peer.index]):
                total += batch[peer.index] * trace.gradient(shared, peer.index, peer.step)
                peer.step += 1
                peer.note()
        shared = step(shared, total / sum(n * c for n, c in zip(batch, count)))
        for peer in peers:
            peer.theta = shared.copy()
            peer.note()
    return trace


def dedloc():
    """DeDLOC: Diskin et al. 2021 (2106.10207), section 3; its code averages gradients with hivemind (optim/grad_averager.py,
    commit 4bd43b77895019b20d18d81d0d0c1a5ab9a10847): peers add up gradients of the same parameters until they have B samples
    together; then the mean over all samples is one step of the optimizer for all.

    Three peers with batches of 1, 2 and 3 sequences and steps of 20, 30 and 50 ms, B = 16, SGD. Peers look how far all are
    between two of their own steps; who had done how many by then is given.
    """
    return dedloc_rounds("dedloc", lambda shared, mean: shared - float(LEARNING_RATE) * mean)


class Lamb:
    """torch_optimizer's Lamb (0.3.0, lamb.py), with debias=True, tensor by tensor."""

    def __init__(self, rate, epsilon, decay, clamp_value):
        self.rate, self.epsilon, self.decay, self.clamp_value = rate, epsilon, decay, clamp_value
        self.beta1, self.beta2 = rounded(0.9), rounded(0.999)
        self.first, self.second, self.steps = 0.0, 0.0, 0

    def step(self, theta, gradient):
        self.steps += 1
        self.first = self.beta1 * self.first + (1 - self.beta1) * gradient
        self.second = self.beta2 * self.second + (1 - self.beta2) * gradient**2
        step_size = self.rate * np.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        theta = theta.copy()
        for (_, kind, *_), piece in zip(make_traces.TENSORS, pieces()):
            update = self.first[piece] / (np.sqrt(self.second[piece]) + self.epsilon)
            if kind != "vector":
                update = update + self.decay * theta[piece]
            weight_norm = min(np.linalg.norm(theta[piece]), self.clamp_value)
            update_norm = np.linalg.norm(update)
            trust_ratio = 1.0 if weight_norm == 0 or update_norm == 0 else weight_norm / update_norm
            theta[piece] = theta[piece] - step_size * trust_ratio * update
        return theta


def dedloc_lamb():
    """DeDLOC with the optimizer of its authors' runs: github.com/yandex-research/DeDLOC, commit
    10a9df8c2720b96bdbbfab997e8650e2ab45e41f, albert/run_trainer.py: torch_optimizer's Lamb with debias=True, which corrects the
    length of a step and not the moments in the trust ratio; biases and gains are not decayed. Everything else as the trace
    dedloc.

    Betas 0.9 and 0.999, an epsilon of 0.001 and a decay of 0.01, and 5 as the longest norm of a tensor, which one of them has,
    in place of 1e-6 and 10,000. The rate is 0.1 in place of 0.00176.
    """
    return dedloc_rounds("dedloc_lamb", Lamb(float(LEARNING_RATE), rounded(1e-3), rounded(0.01), 5.0).step)


# As those of make_traces.py, large enough for two vectors to be less than a matrix.
POWER_SGD_TENSORS = [
    ("table", "embedding", 6, 5, -1, 0.5, 1.0),
    ("block0.matrix", "matrix", 6, 6, 0, 1.0, 1e-2),
    ("block0.bias", "vector", 1, 3, 0, 2.0, 10.0),
    ("block1.matrix", "matrix", 5, 6, 1, 0.25, 1e-3),
    ("block1.bias", "vector", 1, 3, 1, 1.5, 1.0),
    ("head", "matrix", 8, 4, 2, 1.0, 1.0),
]
# Where PowerSGD's right factors begin, vector by vector: drawn by this library.
POWER_SGD_START = [
    [-0.557918668, 0.575955391, 0.412657499, 0.604914427, -0.141143084, -0.0166773796, 0.6954391, -0.172964573, 0.88986659,
     0.0911487341],
    [0.0852730274, 0.826654911, 0.321592569, 0.0530493259, -0.171238303, 0.0678554773, -0.135719299, 0.42462635,
     -0.810771823, 0.636903405, -0.390441298, 0.278726459],
    [-0.784822583, -0.423457623, 0.462870479, -0.492096066, -0.463188171, -0.297941089, -0.712324023, 0.0278553963,
     0.662157178, 0.426876783, 0.802066684, -0.170738101],
    [0.201170564, -0.800150275, -0.772968054, -0.718683243, 0.616182923, 0.335458636, 0.639480352, 0.927689791],
]


def power_sgd():
    """PowerSGD: Vogels et al. 2019 (1905.13727), algorithms 1 and 2; github.com/epfml/powersgd, commit
    f07be924eda568511c0ca00efdfed06b1d7e6332, paper-code/gradient_reducers.py (RankKReducer, reuse_query): of each matrix
    M = g + e, P ← mean of M Q, made orthonormal; Q ← mean of Mᵀ P, with which the next step begins; the result is P Qᵀ, and
    e ← M − P Qᵀ. Vectors travel whole.

    Rank 2, three workers, 8 steps. The result goes to plain SGD; the paper's has momentum, which is no part of the exchange.
    (Their later package powersgd/ takes a worker's own Mᵀ P for its e, and alternates between the sides; and algorithm 2 has
    no matrix too small to gain: nor has this model.)
    """
    make_traces.set_tensors(POWER_SGD_TENSORS)
    trace = Trace("power_sgd", 3, [8] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    errors = np.zeros((3, trace.start.size))
    matrices = [(where, t[2:4]) for where, t in zip(pieces(), make_traces.TENSORS) if t[2] > 1]
    right = [np.reshape(q, (2, shape[1])).T for q, (_, shape) in zip(POWER_SGD_START, matrices)]
    for _ in range(8):
        rows = [trace.gradient(peer.theta, peer.index, peer.step) for peer in peers] + errors
        mean = np.mean(rows, axis=0)
        errors = np.zeros_like(errors)
        for k, (where, shape) in enumerate(matrices):
            inputs = [row[where].reshape(shape) for row in rows]
            left = np.linalg.qr(np.mean([m @ right[k] for m in inputs], axis=0))[0]
            right[k] = np.mean([m.T @ left for m in inputs], axis=0)
            mean[where] = (left @ right[k].T).ravel()
            errors[:, where] = rows[:, where] - mean[where]
        for peer in peers:
            peer.theta = peer.theta - float(LEARNING_RATE) * mean
            peer.step += 1
            peer.note()
    return trace


# ---- CocktailSGD -----------------------------------------------------------------------------------------------------

# The half of each of three parts that may travel in a round, three lines a round: drawn by this library.
COCKTAIL_MASKS = """
0 2 4 8 13 16 17 18 19 20 21 22 24 25 26 31
0 3 4 6 7 8 10 11 12 14 22 23 24 25 28 30
10 11 13 14 16 17 18 20 21 23 24 25 26 27 28 31
0 3 4 10 11 12 13 14 18 19 21 22 23 28 30 31
0 1 2 6 7 9 13 14 15 18 21 22 23 24 27 29
0 4 7 8 9 11 12 14 16 18 20 21 22 23 27 28
0 2 4 6 7 8 10 11 12 13 17 19 20 22 25 30
1 2 4 6 7 8 12 13 16 20 21 25 26 27 29 30
1 3 4 5 6 10 13 15 17 19 21 23 24 25 28 30
0 1 5 6 7 8 11 13 14 16 18 19 20 23 27 31
0 1 2 4 6 7 8 9 11 12 14 16 19 20 25 27
1 3 4 5 6 8 11 12 14 15 19 24 25 26 27 28
2 3 4 5 8 9 10 11 18 19 21 23 25 28 29 30
2 3 5 7 8 10 12 16 17 21 22 23 25 27 28 29
0 1 2 3 4 5 8 9 10 11 12 18 19 22 27 28
1 4 6 7 9 11 12 13 15 19 20 21 23 27 29 30
0 1 2 3 5 6 9 12 15 18 19 20 21 24 25 28
0 2 3 5 11 14 15 16 18 20 21 23 25 27 29 31
1 4 6 7 10 12 13 14 16 19 21 25 26 28 29 30
2 3 4 5 7 8 9 11 13 16 18 23 24 27 29 31
2 3 4 7 8 11 12 15 18 19 21 22 26 27 28 29
0 2 10 11 13 14 15 16 17 23 24 27 28 29 30 31
0 1 6 7 8 9 10 15 20 21 22 26 28 29 30 31
1 4 5 8 11 15 16 19 20 22 23 24 25 26 29 30
1 3 4 6 12 14 16 18 19 20 22 23 25 26 30 31
0 1 3 6 11 12 13 17 23 24 25 26 27 28 30 31
7 8 10 12 13 15 17 18 19 21 22 23 24 28 30 31
"""


def cocktail_message(values, most):
    """What arrives: the `most` largest in 4 bits, -7 to 7 times a seventh of the largest."""
    kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:most])
    arrived = np.zeros_like(values)
    scale = np.max(np.abs(values)) / 7
    if scale > 0:
        arrived[kept] = np.rint(values[kept] / scale) * scale
    return arrived


def cocktail_sgd():
    """CocktailSGD: Wang et al. 2023 (ICML, PMLR 202:36058), section 3; github.com/DS3Lab/CocktailSGD, commit
    4819ed750e5f9284a6667eba11ad488cd616a3ef, data_parallel/dist_dp_cocktail_sgd.py (_partial_sync). Each worker has x, all
    have a copy g, each part of the parameters has a server with an error e. While a step's gradients are computed at x (theirs
    at its half-precision copy): with the round's mask of a part, the same for all, d = (x − g)[mask]; message c_i = the
    largest of d, in 4 bits; x[mask] −= c_i; the server takes y = mean of c_i + e[mask], sends c = y compressed likewise and
    keeps e[mask] = y − c; x[mask] += c, g[mask] += c. Then the optimizer's step.

    Three workers, the 3 largest of a mask of half of each part, 10 steps, SGD. Their default mask is every 1/p-th parameter,
    moving on by one each round; their codes are -8 to 7 eighths of a scale in half precision, and the largest value itself,
    where it is positive, is cut to 7 eighths; here -7 to 7 sevenths. Every tensor is followed by zeros up to a multiple of 16
    values, and a part is a third of all that.
    """
    most, part, count = 3, 32, 3
    masks = masks_of(COCKTAIL_MASKS)
    steps = len(masks) // count + 1
    trace = Trace("cocktail_sgd", count, [steps] * count)
    trace.lines.append(f"# drawn: {masks}")
    places = padded_places()
    peers = [Peer(trace, p, trace.start) for p in range(count)]
    copy, error = np.zeros(part * count), np.zeros(part * count)
    copy[places] = trace.start
    for step in range(steps):
        change = np.zeros((count, part * count))
        if step > 0:  # before the first step x is g
            live = np.tile(copy, (count, 1))
            live[:, places] = [peer.theta for peer in peers]
            for k, mask in enumerate(masks[(step - 1) * count:step * count]):
                where = k * part + np.array(mask)
                own = np.array([cocktail_message((x - copy)[where], most) for x in live])
                wanted = own.mean(axis=0) + error[where]
                sent = cocktail_message(wanted, most)
                error[where] = wanted - sent
                change[:, where] = sent - own
                copy[where] += sent
        for peer in peers:
            peer.train(note=False)
            peer.theta = peer.theta + change[peer.index][places]
            peer.note()
    return trace


# ---- Gaia ------------------------------------------------------------------------------------------------------------


def gaia():
    """Gaia: Hsieh et al. 2017 (NSDI '17), its significance filter: a data centre applies its own updates at once to its copy of the
    parameters, and adds up, for each, what the others have not been sent. What has come to |u / w| > v_0 / √t in clock t, w
    its copy's value, is sent, and every other data centre adds it to its copy. No code of the authors.

    Three data centres of one worker each, v_0 = 0.2, 8 clocks, updates −η g with η a third of the other traces', as those of
    all add up. A clock's updates reach all before the next (the paper's staleness bound allows more). A parameter below 1e-3
    counts as 1e-3: the paper has nothing for zeros.
    """
    count, first, rate = 3, 0.2, LEARNING_RATE / np.float32(3)
    trace = Trace("gaia", count, [8] * count, learning_rate=rate)
    peers = [Peer(trace, p, trace.start) for p in range(count)]
    unsent = np.zeros((count, trace.start.size))
    for clock in range(1, 9):
        for peer in peers:
            before = peer.theta
            peer.train(sgd_rate=float(rate))
            unsent[peer.index] += peer.theta - before
        least = [first / np.sqrt(clock) * np.maximum(np.abs(peer.theta), 1e-3) for peer in peers]
        sent = np.where(np.abs(unsent) > least, unsent, 0.0)
        unsent -= sent
        for peer in peers:
            peer.theta = peer.theta + sum(sent[p] for p in range(count) if p != peer.index)
            peer.note()
        trace.lines.append(f"# sent in clock {clock}: {[int(np.count_nonzero(s)) for s in sent]}")
    return trace


class Centre:
    """A data centre in ASP: a copy of the parameters, its clock, and what it knows of the others whom it talks to: whose
    updates of which clock are here, and which are announced. It talks to one circle of centres or, as the hub of a group, to
    two: `unsent` is what each of them has not been sent, of the centre's own updates and of those of the other circle."""

    def __init__(self, trace, index, circles):
        self.worker, self.computed = Peer(trace, index, trace.start), np.zeros_like(trace.start)
        self.circles = [[p for p in circle if p != index] for circle in circles]
        self.unsent = [np.zeros_like(trace.start) for _ in circles]
        others = [p for circle in self.circles for p in circle]
        self.clock, self.known, self.announced, self.inbox = 0, {p: 0 for p in others}, {p: 0 for p in others}, []
        self.held = False

    def train(self, rate):
        before = self.worker.theta
        self.worker.train(note=False, sgd_rate=rate)
        self.computed = self.computed + self.worker.theta - before
        self.unsent = [unsent + self.worker.theta - before for unsent in self.unsent]

    def read(self):
        for sender, update in self.inbox:
            self.worker.theta = self.worker.theta + update
            self.unsent = [u if sender in circle else u + update for u, circle in zip(self.unsent, self.circles)]
        self.inbox = []

    def note(self):
        self.worker.note()
        live = self.worker.theta
        self.worker.theta = live - self.unsent[0]
        self.worker.note("shared")
        self.worker.theta = live


class Line:
    """From one centre to another: what is put on it begins when what was put there before is over."""

    def __init__(self, travel):
        self.travel, self.begins, self.free = travel, 0, 0

    def put(self, now, takes):
        self.begins = max(now, self.free)
        self.free = self.begins + takes
        return self.free + self.travel

    def is_behind(self, now):
        return self.begins > now


def circles_of(groups, p):
    """Whom a centre talks to: its group, and the other hubs, if it is the first of that."""
    own = next(group for group in groups if p in group)
    return [own, [group[0] for group in groups]] if own[0] == p and len(groups) > 1 else [own]


def asp(trace, times, clocks, first, ahead, takes, groups=None, far=9):
    """Approximate synchronous parallel, moment by moment: clocks of `times` ms; updates, and all else, take so many ms on a
    line, and 9 ms to arrive, or `far` between two groups. Gives by what somebody was held."""
    count, rate = len(times), float(trace.rate)
    groups = groups or [list(range(count))]
    centres = [Centre(trace, p, circles_of(groups, p)) for p in range(count)]
    near = {(p, q) for group in groups for p in group for q in group}
    lines = {(p, q): Line(9 if (p, q) in near else far) for p in range(count) for q in range(count) if p != q}
    agenda = [(t, p, "end", None) for p, t in enumerate(times)]
    held, moments = {}, []

    def tell(p, q, now, what, update=None):
        there = lines[p, q].put(now, takes[0] if what == "updates" else takes[1])
        agenda.append((there, q, what, (p, centres[p].clock, update)))

    def go_on(p, now):
        centre = centres[p]
        by_clock = any(centre.clock - known >= ahead for known in centre.known.values())
        by_barrier = any(centre.known[q] < centre.announced[q] for q in centre.known)
        centre.held = by_clock or by_barrier
        if centre.held:
            held.setdefault((p, centre.clock), "mirror clock" if by_clock else "barrier")
            return
        centre.read()
        centre.note()
        if centre.clock < clocks[p]:
            agenda.append((now + times[p], p, "end", None))
        else:
            for q in centre.known:
                tell(p, q, now, "done")

    while agenda:
        agenda.sort(key=lambda event: event[0])
        now, p, what, news = agenda.pop(0)
        moments.append((now, p, what))
        centre = centres[p]
        if what == "end":
            centre.train(rate)
            centre.read()
            centre.clock += 1
            least = first / np.sqrt(centre.clock) * np.maximum(np.abs(centre.worker.theta), 1e-3)
            for c, circle in enumerate(centre.circles):
                sent = np.where(np.abs(centre.unsent[c]) > least, centre.unsent[c], 0.0)
                centre.unsent[c] = centre.unsent[c] - sent
                for q in circle:
                    if lines[p, q].is_behind(now) and np.any(sent):
                        tell(p, q, now, "barrier")
                    tell(p, q, now, "updates", sent)
            go_on(p, now)
            continue
        sender, clock, update = news
        if what == "barrier":
            centre.announced[sender] = clock
        else:
            centre.known[sender] = np.inf if what == "done" else clock
            centre.inbox.extend([] if update is None else [(sender, update)])
        if centre.held:
            go_on(p, now)
    assert all(c.clock == n for c, n in zip(centres, clocks))
    ends = [(now, p) for now, p, what in moments if what == "end"]
    assert all(what == "end" or p != q or abs(now - end) > 0.2 for now, p, what in moments for end, q in ends), "a tie has no order"
    trace.lines.append("# held: " + ", ".join(f"{p} after clock {clock} by the {why}" for (p, clock), why in held.items()))
    if len(groups) > 1:
        last = {p: max(now for now, q, what in moments if q == p and what == "end") for p in range(count)}
        hubs = [group[0] for group in groups]
        assert all(last[p] < last[h] for group in groups for h in hubs for p in group[1:]), "hubs end last,"
        assert all(abs(last[h] - last[g]) < far for h in hubs for g in hubs), "and without hearing each other's end"
        for centre in centres:  # what all have computed, sent or not
            centre.worker.theta, centre.worker.step = trace.start + sum(c.computed for c in centres), 0
            centre.worker.note("final")
    return set(held.values())


def gaia_trace(name, clocks):
    """Updates of all centres add up."""
    rate = LEARNING_RATE / np.float32(len(clocks))
    trace = Trace(name, len(clocks), clocks, learning_rate=rate)
    trace.rate = rate
    return trace


def gaia_asp():
    """Gaia: Hsieh et al. 2017 (NSDI '17), sections 4.2 and 4.3: the filter of the trace `gaia` among data centres that go at
    their own pace. A centre's updates of a clock go to all others with the number of that clock, and are applied when they
    are there; the mirror clock holds a centre whose clock is DS ahead of the slowest that it knows of, so that an update of
    clock c is everywhere before clock c + DS begins. No code of the authors, whose text was not at hand: from descriptions.

    Three data centres of one worker each, whose clocks take 20, 27 and 50 ms; 9 ms from one to another; v_0 = 0.2, DS = 2,
    updates -η g with η a third of the other traces'. A centre that has made all its clocks holds nobody up. What arrives in a
    clock is read at its end, after its gradient and before its updates are looked at. Lines are quick, so no selective
    barrier is due: that is the trace gaia_asp_barrier. A parameter below 1e-3 counts as 1e-3: the paper has nothing for zeros.
    """
    clocks = [14, 11, 6]
    trace = gaia_trace("gaia_asp", clocks)
    assert asp(trace, [20, 27, 50], clocks, 0.2, 2, (1e-3, 1e-3)) == {"mirror clock"}
    return trace


def gaia_asp_barrier():
    """Gaia's selective barrier, as the trace gaia_asp: where a line is still behind with earlier clocks' updates, a word goes
    before the next ones, and who hears it waits for them before it reads parameters. A worker reads all of them in a clock.

    Clocks take 20, 27 and 31 ms, and updates 24.5 ms on each line, which is too slow for the first centre alone; a word takes
    a third of that. The threshold is next to nothing, so that all updates are of one size; no bound by the mirror clock.
    """
    clocks = [16, 12, 10]
    trace = gaia_trace("gaia_asp_barrier", clocks)
    assert asp(trace, [20, 27, 31], clocks, 1e-9, 100, (24.5, 24.5 * 96 / 292)) == {"barrier"}
    return trace


def gaia_asp_hubs():
    """Gaia's overlay (sections 4.2 and 5.3, from descriptions: the authors' text was not at hand), as the trace gaia_asp: data
    centres that are close to each other form a group, and send their updates to those of their group only. A group's hub
    sends the hubs of the other groups what is significant of all that its group changed, itself among them; and its group
    what is of the changes that the other hubs sent.

    Two groups of two and three centres, the first of each its hub; clocks take 28, 23, 58, 23 and 46 ms; 9 ms within a group,
    47 ms between the hubs; v_0 = 0.2, DS = 3, η a fifth of the other traces'. The descriptions do not say when a hub passes on,
    and whether it looks at what is significant again: here with its own next clock, and of the sum of its own changes and
    those of the others, against the threshold of that clock. Mirror clocks are those of neighbours. `final`: what all have
    computed, sent or not.
    """
    clocks = [10, 9, 8, 10, 9]
    trace = gaia_trace("gaia_asp_hubs", clocks)
    assert asp(trace, [28, 23, 58, 23, 46], clocks, 0.2, 3, (1e-3, 1e-3), [[0, 1], [2, 3, 4]], 47) == {"mirror clock"}
    return trace



# ---- StellaTrain -----------------------------------------------------------------------------------------------------

STELLA_TENSORS = [
    ("table", "embedding", 12, 16, -1, 0.5, 1.0),
    ("block0.matrix", "matrix", 9, 12, 0, 1.0, 1e-2),
    ("block0.bias", "vector", 1, 40, 0, 2.0, 10.0),
    ("block1.matrix", "matrix", 8, 8, 1, 0.25, 1e-3),
    ("block1.bias", "vector", 1, 5, 1, 1.5, 1.0),
]
GROUP = 16


class GroupThreshold:
    """A tensor's: which of the groups [first, last) travel, `count` of them; a group is its values' sum of magnitudes."""

    def __init__(self):
        self.value = None

    def choose(self, sums, first, last, count):
        count = min(count, last - first)
        if count == 0:
            return []
        sums = sums[first:last]
        if self.value is None:
            self.value = np.sort(sums)[::-1][min(count, len(sums) - 1)]
            self.rise = 0.01 * self.value
        over = [g for g in range(len(sums)) if sums[g] >= self.value]
        for s in sums:  # no choice may hang on rounding
            assert s == self.value or abs(s - self.value) > 1e-5 * self.value, "a tie: change the numbers"
        chosen = over[:count]
        self.value = self.value * 0.99 if len(chosen) < count else self.value + self.rise
        rest = sorted((g for g in range(len(sums)) if g not in over), key=lambda g: -sums[g])
        return [first + g for g in sorted(chosen + rest[: count - len(chosen)])]


def group_sums(values):
    """A last group of fewer values counts as if it had all."""
    sums = np.array([np.abs(values[at : at + GROUP]).sum() for at in range(0, len(values), GROUP)])
    left = len(values) % GROUP
    if left:
        sums[-1] *= GROUP / left
    return sums


class SparseMomentum:
    def __init__(self, size, momentum=0.9):
        self.velocity, self.momentum = np.zeros(size), momentum

    def step(self, theta, places, gradient):
        self.velocity[places] = self.momentum * self.velocity[places] + gradient[places]
        theta[places] -= float(LEARNING_RATE) * self.velocity[places]


class SparseAdam:
    def __init__(self, size, beta1=0.9, beta2=0.999, epsilon=1e-3, weight_decay=0.01):
        self.first, self.second, self.steps = np.zeros(size), np.zeros(size), 0
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay

    def step(self, theta, places, gradient):
        self.steps += 1
        kinds = np.repeat([t[1] != "vector" for t in make_traces.TENSORS], make_traces.SIZES)
        g = gradient[places] + (self.weight_decay * theta * kinds)[places]
        self.first[places] = self.beta1 * self.first[places] + (1 - self.beta1) * g
        self.second[places] = self.beta2 * self.second[places] + (1 - self.beta2) * g * g
        m = self.first[places] / (1 - self.beta1**self.steps)
        v = self.second[places] / (1 - self.beta2**self.steps)
        theta[places] -= float(LEARNING_RATE) * m / (np.sqrt(v) + self.epsilon)


def stella_steps(name, optimizer, in_parts, steps=10, peers=3, share=0.6):
    make_traces.set_tensors(STELLA_TENSORS)
    trace = Trace(name, peers, [steps] * peers)
    all_peers = [Peer(trace, p, trace.start) for p in range(peers)]
    theta, residuals = trace.start.copy(), np.zeros((peers, trace.start.size))
    thresholds = [[GroupThreshold() for _ in STELLA_TENSORS] for _ in range(peers)]
    optimizer, late = optimizer(theta.size), None
    for step in range(steps):
        total, senders = np.zeros_like(theta), np.zeros_like(theta)
        for p, peer in enumerate(all_peers):
            row = trace.gradient(theta, p, step) + residuals[p]
            for t, where in enumerate(pieces()):
                values, groups = row[where], -(-(where.stop - where.start) // GROUP)
                count = max(1, int(np.float32(len(values)) * (np.float32(share) / np.float32(peers))) // GROUP)
                part = (step + p) % peers
                first, last = (groups * part // peers, groups * (part + 1) // peers) if in_parts else (0, groups)
                for g in thresholds[p][t].choose(group_sums(values), first, last, count):
                    sent = slice(where.start + g * GROUP, min(where.start + (g + 1) * GROUP, where.stop))
                    total[sent] += row[sent]
                    senders[sent] += 1
                    row[sent] = 0
            residuals[p] = row
        if late is not None:
            optimizer.step(theta, *late)
        late = (senders > 0, total / (np.maximum(senders, 1) if in_parts else peers))
        for peer in all_peers:
            peer.theta = theta.copy()
            peer.step += 1
            if step + 1 == steps or peer.index == step % peers:  # all have the same
                peer.note()
    return trace


def stella_train():
    """StellaTrain: Lim et al. 2024 (SIGCOMM); github.com/kaist-ina/stellatrain, commit
    6dccb2dad957598605fc9138c7160ae5809f5e9c, backend/src/compress/thresholdv16.cpp (impl_simd_v2), engine/modules/compress.cpp
    and cpu_optimize.cpp as config.h has them (MERGE 1), optim/sgd.cpp; engine/core.cpp for a model that is one step old. Of
    each tensor, gradient and residual together, a peer sends groups of 16 values: in their order those whose magnitudes sum
    up to the tensor's threshold at least, until there are (1 - ratio) / n of all; then the largest of the rest. The threshold
    is first the sum of the group that is just too many; it becomes 0.99 of itself where too few reached it, else it rises by
    0.01 of its first value. What was sent is divided by all peers, and SGD moves only the values that came, and their momenta.

    Three peers, ratio 0.4, momentum 0.9, 10 steps. Differently here: a group travels whole, and each tensor sends at least
    one, where their last group is cut off at the exact count, so that of a small tensor the same first values of a group are
    sent for ever and the others never; the threshold of a last group of fewer values looks at magnitudes, where they sum
    values; groups of equal sums go by place.
    """
    return stella_steps("stella_train", SparseMomentum, False)


def stella_train_parts():
    """StellaTrain, whose peers send parts by turns: sources as stella_train, with MERGE 0 in config.h: in step t peer i of n
    chooses among the (t + i mod n)-th part of each tensor, so that no two peers send the same value, and nothing is divided.
    Adam as optim/adam.cpp.

    Three peers, ratio 0.4, 10 steps; weight decay 0.01, of matrices only; epsilon 1e-3, so that rounding stays small.
    Differently here: as stella_train; and parts begin at multiples of 16 values, theirs at multiples of 4, so that a tensor of
    few groups has parts with none.
    """
    return stella_steps("stella_train_parts", SparseAdam, True)


TRACES = [sparta, sparta_diloco, dedloc, dedloc_lamb, cocktail_sgd, gaia, gaia_asp, gaia_asp_barrier, gaia_asp_hubs, power_sgd, stella_train, stella_train_parts]  # the last three have other tensors

if __name__ == "__main__":
    write(TRACES)
