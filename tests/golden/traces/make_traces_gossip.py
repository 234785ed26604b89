#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of presets in which peers meet in groups: python3 make_traces_gossip.py [NAME...]. See make_traces.py."""
import numpy as np

from make_traces import Peer, Trace, pieces, write

# Ways of four to meet in pairs. Which are drawn is the library's rng's choice.
A, B, C = [(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]

def noloco():
    """NoLoCo: Kolehmainen et al. 2025 (2506.10911); github.com/jkolehm/noloco (the first author's), commit
    006b799e1eaa3e6e6ef920fff3b2e95886ce6a65: src/noloco/sparse_optimizer_c.py.

    D = θ − φ; δ ← α δ + β mean(D) + γ (mean(φ) − φ), means over the group; φ ← φ + δ; θ ← φ, as the
    code has it, with one rate for β and γ; here they differ.
    H = 3, pairs, α = 0.5, β = 0.7, γ = 0.9. Peers' momenta are their own. Who meets whom is drawn.
    """
    drawn, local_steps = [B, A, B, B, A], 3
    trace = Trace("noloco", 4, [local_steps * len(drawn)] * 4)
    trace.lines.append(f"# drawn: {drawn}")
    peers = [Peer(trace, p, trace.start) for p in range(4)]
    outer, momentum = [trace.start.copy() for _ in peers], [0.0 for _ in peers]
    for pairs in drawn:
        for peer in peers:
            peer.train(local_steps)
        before = [x.copy() for x in outer]
        for pair in pairs:
            progress = np.mean([peers[p].theta - before[p] for p in pair], axis=0)
            middle = np.mean([before[p] for p in pair], axis=0)
            for p in pair:
                momentum[p] = 0.5 * momentum[p] + 0.7 * progress + 0.9 * (middle - before[p])
                outer[p] = before[p] + momentum[p]
        for peer in peers:
            peer.theta = outer[peer.index].copy()
            peer.note()
    return trace


def moshpit_sgd():
    """Moshpit SGD: Ryabinin et al. 2021 (2103.03239), from descriptions of it: every τ steps parameters become the mean of a
    group; groups differ in turn along the axes of a grid, and who was in one group is in different ones the next time.

    Six peers in a grid of side 3 and two dimensions, which is not full: groups of three along the first axis, of two along
    the second. τ = 2; one averaging (T = 1) each time; the mean counts all alike. Peer p begins at (p mod 3, p div 3);
    afterwards each takes a place of its own on the axis along which its group met. Who takes which is drawn.
    """
    drawn = [[(0, 1, 2), (3, 4, 5)], [(0, 4), (1, 5), (2, 3)], [(0, 1, 3), (2, 4, 5)], [(0, 2), (1, 5), (3, 4)],
             [(0, 3, 5), (1, 2, 4)]]
    local_steps = 2
    assert all(len(set(a) & set(b)) == 1 for now, then in zip(drawn, drawn[1:]) for a in now for b in then)
    trace = Trace("moshpit_sgd", 6, [local_steps * len(drawn)] * 6)
    trace.lines.append(f"# drawn: {drawn}")
    peers = [Peer(trace, p, trace.start) for p in range(6)]
    for groups in drawn:
        for peer in peers:
            peer.train(local_steps)
        for group in groups:
            mean = np.mean([peers[p].theta for p in group], axis=0)
            for p in group:
                peers[p].theta = mean.copy()
                peers[p].note()
    return trace


def bacombo():
    """BACombo: Jiang et al. 2020 (IEEE Access 8), and Combo before it, Hu et al. 2019 (1908.07782): a model is cut in
    segments; for each a worker pulls those of R others and replaces its own by Σ |D_j| w_j / Σ |D_j|, itself among them.
    From descriptions of both papers, whose texts were not at hand; no code was found.

    H = 2 local steps, three segments, R = 1, batches of 1, 2, 3 and 4 sequences, so |D_j| = 2, 4, 6, 8 in each round. Whom
    a worker pulls from is drawn, for each round and segment, and here mutual.
    """
    drawn, batch, local_steps = [[B, C, A], [A, B, B], [B, C, A], [B, B, A]], [1, 2, 3, 4], 2
    segments = [pieces([0, 3]), pieces([1, 4]), pieces([2, 5])]
    trace = Trace("bacombo", 4, [local_steps * len(drawn)] * 4)
    trace.put("batch", batch)
    trace.lines.append(f"# drawn: {drawn}")
    peers = [Peer(trace, p, trace.start) for p in range(4)]
    for by_segment in drawn:
        for peer in peers:
            peer.train(local_steps)
        for segment, pairs in zip(segments, by_segment):
            for where in segment:
                for pair in pairs:
                    n = np.array([batch[p] * local_steps for p in pair])
                    mean = sum(k * peers[p].theta[where] for k, p in zip(n, pair)) / n.sum()
                    for p in pair:
                        peers[p].theta[where] = mean
        for peer in peers:
            peer.note()
    return trace


def ravnest():
    """Ravnest: Menon et al. 2024 (2401.01728): after some updates in each cluster, the parameters of all clusters are averaged
    (equal weights), shares of them around rings. From descriptions of the paper; github.com/ravenprotocol/ravnest was not read.

    What clusters do inside, an asynchronous pipeline, is not in this trace: three clusters, each of one peer. H = 3.
    """
    local_steps, rounds = 3, 4
    trace = Trace("ravnest", 3, [local_steps * rounds] * 3)
    peers = [Peer(trace, p, trace.start) for p in range(3)]
    for _ in range(rounds):
        for peer in peers:
            peer.train(local_steps)
        mean = np.mean([peer.theta for peer in peers], axis=0)
        for peer in peers:
            peer.theta = mean.copy()
            peer.note()
    return trace


def netstorm():
    """NETSTORM: Li et al. 2024 (2404.11352): synchronous training of data centres; each root of several adds up its share of
    all gradients on a tree, and sends the result back on it. Trees and paths are about time: the result is the sum's.

    Five workers, four roots, batches of one sequence; w ← w − η mean(g).
    """
    steps = 6
    trace = Trace("netstorm", 5, [steps] * 5)
    peers = [Peer(trace, p, trace.start) for p in range(5)]
    for _ in range(steps):
        mean = np.mean([peer.train().theta for peer in peers], axis=0)  # all stood at the same point
        for peer in peers:
            peer.theta = mean.copy()
            peer.note()
    return trace


TRACES = [noloco, moshpit_sgd, bacombo, ravnest, netstorm]

if __name__ == "__main__":
    write(TRACES)
