#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of pipelines on peers that are taken away: python3 make_traces_elastic.py [NAME...]. See
make_traces_pipelines.py."""
import itertools

import numpy as np

from make_traces_pipelines import (BETAS, EPSILON, TOKENS, VOCABULARY, WIDTH, Trace, Training, batch, one_f_one_b, put_orders,
                                   rounded, varuna_order, write)


def unsplit(name, seed, scale=1):
    """Six blocks, a batch of six sequences in as many micro-batches, six steps."""
    trace = Trace(name, 6, seed=seed, scale=scale)
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


def made_up(name, weights, scale=1):
    """Six steps; the stage between is lost after two of them, and goes on as a new one. `weights`: of a stage before and one
    behind, from the norms of their gradients."""
    trace, training = unsplit(name, 15, scale)
    lost_after = 2  # given: when the peer dies
    trace.put("lost_after", [lost_after])
    for s in range(lost_after):
        training.step(s)
    norms = [np.sqrt(sum(float((part ** 2).sum()) for b in stage for part in training.last[b])) for stage in ((0, 1), (4, 5))]
    before, behind = weights(norms)
    trace.put("norms", norms)
    trace.put("shares", np.array([before, behind]) / (before + behind))
    for b in (2, 3):
        pairs = zip(training.blocks[b - 2], training.blocks[b + 2])
        training.blocks[b] = tuple((before * w + behind * v) / (before + behind) for w, v in pairs)
        training.momentum[b] = tuple(0 * m for m in training.momentum[b])
        training.squares[b] = tuple(0 * m for m in training.squares[b])
        training.steps[b], training.rates[b] = 0, 1.1 * trace.rate
    for s in range(lost_after, 6):
        training.step(s)
    trace.put("steps", [6])
    return trace


def checkfree():
    """CheckFree: Blagoev et al. 2025 (2506.15461v2), section 4.2 and algorithm 1; github.com/gensyn-ai/CheckFree, commit
    8d7d5477bc56e80971b6ae6cb6e1fd2211e36f72: simulate_training/convergence_training.py (ours-grad-avg).

    Three stages of two blocks; the one between is lost after `lost_after` steps, and becomes the mean of its neighbours,
    block by block, weighted by the squared norms of their last gradients. From then on its learning rate is 1.1 times what
    it was, and a new peer has a new Adam, as in the code: moments and steps from zero. (The paper says nothing of it.) The
    text of the paper, as it was at hand, writes the weight as a norm with a 2 behind it, and calls it the norm: it can be
    read both ways.
    """
    return made_up("checkfree", lambda norms: [n ** 2 for n in norms])


def checkfree_code():
    """CheckFree as its authors' code has it: github.com/gensyn-ai/CheckFree, commit
    8d7d5477bc56e80971b6ae6cb6e1fd2211e36f72: simulate_training/convergence_training.py (ours-grad-avg), whose lr_scale is 1.1
    or 1.2.

    As the trace `checkfree`, but the weights are the norms, each after its stage's gradient was clipped to 1, and 0.0001;
    with smaller numbers, so that one of them is below 1. The trace's own steps are not clipped. (With the code's schedule for GPT, warmup and cosine, the first step of what was
    made up has the rate of step 0, which is 0; with that for LLaMa the rate is constant, as here.)
    """
    return made_up("checkfree_code", lambda norms: [min(n, 1) + 0.0001 for n in norms], 0.25)


class Ring(Training):
    """Block 0 has both ends of the model: a table whose row is what goes in, and a vector that is added to what comes out,
    before half its square is the loss. Blocks 1, 2, ... are stages of two; `way` is through which of them a micro-batch
    goes."""

    def __init__(self, trace, way, sequences):
        head = rounded(np.random.default_rng(99).normal(size=WIDTH))
        trace.put("head", head)
        trace.start.insert(0, (trace.table, head))
        super().__init__(trace, 1, sequences, sequences, adam=True)
        self.way = way

    def step(self, number):
        total = [(0 * m, 0 * c) for m, c in self.blocks]

        def add(b, first, second):
            total[b] = (total[b][0] + first, total[b][1] + second)

        tokens = batch(0, number, self.sequences)
        for m in range(self.sequences):
            blocks = [b for s in self.way(m) for b in (2 * s - 1, 2 * s)]
            table, head = self.blocks[0]
            x, inputs = table[tokens[m]], []
            for b in blocks:
                inputs.append(x)
                x = x + x @ self.blocks[b][0] + self.blocks[b][1]
            g = (x + head) / (self.sequences * TOKENS)
            add(0, 0, g.sum(axis=0))
            for b, into in zip(reversed(blocks), reversed(inputs)):
                add(b, into.T @ g, g.sum(axis=0))
                g = g + g @ self.blocks[b][0].T
            rows = np.zeros((VOCABULARY, WIDTH))
            np.add.at(rows, tokens[m], g)
            add(0, rows, 0)
        self.last = total
        for b, parts in enumerate(total):
            self.steps[b] += 1
            updates = [self.update(b, k, g) for k, g in enumerate(parts)]
            self.blocks[b] = tuple(p - self.rates[b] * u for p, u in zip(self.blocks[b], updates))
        for b, (matrix, vector) in enumerate(self.blocks):
            self.trace.put(f"block{b}.matrix {number + 1}", matrix)
            self.trace.put(f"block{b}.vector {number + 1}", vector)


def swapped(name, stages, lost, seed):
    """Six steps of a ring of so many stages; stage `lost` is lost after two of them, and goes on as a new one."""
    trace = Trace(name, 2 * stages, seed=seed)
    trace.put("betas", BETAS)
    trace.put("epsilon", [EPSILON])

    def way(m):
        order = list(range(1, stages + 1))
        if m % 2 == 1:
            order[0], order[1] = order[1], order[0]
            order[-1], order[-2] = order[-2], order[-1]
        return order

    training, lost_after = Ring(trace, way, 6), 2
    trace.put("stages", [stages])
    trace.put("lost_after", [lost_after])
    trace.put("lost", [2 * lost - 1, 2 * lost + 1])
    for s in range(lost_after):
        training.step(s)
    twin = {1: 2, 2: 1, stages: stages - 1, stages - 1: stages}
    for k in (0, 1):
        b = 2 * lost - 1 + k
        if lost in twin:
            training.blocks[b] = training.blocks[2 * twin[lost] - 1 + k]
        else:
            before, behind = (sum(float((part ** 2).sum()) for c in (2 * s - 1, 2 * s) for part in training.last[c])
                              for s in (lost - 1, lost + 1))
            pairs = zip(training.blocks[b - 2], training.blocks[b + 2])
            training.blocks[b] = tuple((before * w + behind * v) / (before + behind) for w, v in pairs)
        training.momentum[b] = tuple(0 * m for m in training.momentum[b])
        training.squares[b] = tuple(0 * m for m in training.squares[b])
        training.steps[b], training.rates[b] = 0, 1.1 * trace.rate
    for s in range(lost_after, 6):
        training.step(s)
    trace.put("steps", [6])
    return trace


def checkfree_plus():
    """CheckFree+: Blagoev et al. 2025 (2506.15461v2), out-of-order execution; github.com/gensyn-ai/CheckFree, commit
    8d7d5477bc56e80971b6ae6cb6e1fd2211e36f72: simulate_training/convergence_training_2.py (ours-grad-avg; in
    convergence_training.py the lines that swap are commented out, whatever its head says).

    Stages 1 to 4 of two blocks, and embedding and output layer apart from them, as in the code's stage 0, which is never
    lost. Micro-batches 1, 3 and 5 go through stages 2, 1, 4, 3. The first stage is lost after `lost_after` steps, and
    becomes a copy of the second (blocks `lost` are made up); learning rate and Adam as in CheckFree. The code has fixed
    numbers, for six stages (1 and 2, 5 and 6); here they are the first two and the last two.
    """
    return swapped("checkfree_plus", 4, 1, 17)


def checkfree_plus_last():
    """As the trace `checkfree_plus`, but the last stage is lost, and becomes a copy of the one before it."""
    return swapped("checkfree_plus_last", 4, 4, 18)


def checkfree_plus_second():
    """As the trace `checkfree_plus`, but the second stage is lost, and becomes a copy of the first. (So in the code; in the
    paper's text, as it was at hand, that the first and the last stage are copied is all that is said.)"""
    return swapped("checkfree_plus_second", 4, 2, 19)


def checkfree_plus_between():
    """As the trace `checkfree_plus`, with five stages, of which the one that swaps with no other is lost, and becomes the
    mean of its neighbours, weighted as in the trace `checkfree`."""
    return swapped("checkfree_plus_between", 5, 3, 20)


TRACES = [bamboo, oobleck, recycle, parcae, varuna_morphing, checkfree, checkfree_code, checkfree_plus, checkfree_plus_last,
          checkfree_plus_second, checkfree_plus_between]

if __name__ == "__main__":
    write(TRACES)
