#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pictures of docs/concepts.md, docs/policies/README.md and docs/presets/: docs/images/concept_*.svg, policy_*.svg and
preset_*.svg.

usage: diagrams.py [--check]     with --check: status 1 when the files are not what this program draws
"""

import sys
from pathlib import Path

from drawing import Picture, Timeline

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"
PICTURES = {}


def picture(draw):
    PICTURES[draw.__name__] = draw
    return draw


@picture
def concept_step():
    p = Picture(764, 226)
    row = [("begin_step", "fault", "may it begin?"), ("forward_backward", "parallelism", "gradients"), ("before_inner_step", "communication", "exchange gradients"),
           ("inner step", "optimizer", "parameters move"), ("after_inner_step", "communication", "exchange progress"), ("end_step", "fault", "what is it worth?")]
    x, middles = 4, []
    for hook, whose, why in row:
        width = 90 if len(hook) < 12 else 138
        p.box(x, 48, width, 52, "p", (hook, whose))
        p.text(x + width / 2, 38, why, "m", size=11)
        if middles:
            p.arrow(x - 14, 74, x - 1, 74)
        middles.append(x + width / 2)
        x += width + 13
    p.text(382, 14, "trainer.step(batch)", bold=True)
    p.arrow(middles[5], 100, middles[5], 128)
    p.box(476, 130, 284, 74, "i")
    for i, (word, means) in enumerate([("commit", "the step counts"), ("retry", "the phase that failed runs again"), ("abort", "the caller gets the error")]):
        p.text(488, 151 + 21 * i, word, anchor="start", bold=True)
        p.text(546, 151 + 21 * i, means, "m", "start", 13)
    p.line(476, 168, middles[2], 168, dashed=True)
    p.arrow(middles[2], 168, middles[2], 102, dashed=True)
    p.text(middles[2] - 10, 186, "no gradient is computed anew", "m", size=12)
    return p


@picture
def concept_round():
    t = Timeline(["peer 0", "peer 1", "peer 2", "peer 3"], 23)
    for begin, steps in [(0, 8), (11, 8)]:
        for row in range(4):
            t.work(row, *[begin + s for s in range(steps)])
    for begin in (8, 19):
        t.together(begin, range(4), 1.6)
    t.over(4, "inner steps")
    for begin in (8, 19):
        for row in range(4):
            t.work(row, begin + 1.7, look="b", length=1.1)
    t.over(8.8, "mean")
    t.over(10.6, "outer step")
    return t


@picture
def concept_layers():
    p = Picture(764, 372)
    rows = [("presets", "published systems, one line each"), ("train", "the trainer, the context, checkpoints of a run"),
            ("comm · parallel · fault", "the policies; they never include each other"), ("axis · stage · formats", "what policies are composed of; files of other programs"),
            ("nn · collective · compress · membership · policy", "models, exchanges, codecs, who takes part"), ("autograd · optim", "the tape, optimizers"),
            ("kernels · data · sim", "compute, text, a network in virtual time"), ("tensor · net · io · plan", "buffers, transports, files, planners"),
            ("core", "errors, random numbers, clocks, threads")]
    for i, (names, what) in enumerate(rows):
        y = 10 + 38 * i
        p.box(8, y, 372, 30, "p", (names,))
        p.text(396, y + 20, what, "m", "start", 12.5)
    p.arrow(742, 12, 742, 346)
    p.text(734, 364, "includes only downwards", "m", "end", 12)
    return p


@picture
def concept_membership():
    t = Timeline(["leader", "peer 1", "peer 2", "joins"], 23)
    for row in range(3):
        t.work(row, 0, 1, 2, look="b")
    for row in (1, 2):
        t.send(3, row, 4, 0, "k")
    t.over(3.4, "ready")
    t.send(4.6, 0, 5.6, 1, "k")
    t.send(4.6, 0, 6, 2, "k")
    t.over(5.2, "go")
    t.together(6.3, range(3), 2)
    t.over(7.3, "exchange")
    for row, begin in ((1, 8.9), (2, 8.9)):
        t.send(begin, row, begin + 1.1, 0, "k")
    t.over(9.4, "vote")
    for row, end in ((1, 12), (2, 12.3)):
        t.send(11, 0, end, row, "k")
    t.over(11.6, "commit")
    for row in range(3):
        t.work(row, 12.6, 13.6, 14.6, look="b")
    t.send(12.6, 2, 14, 3, "x")
    t.work(3, 14.2, 15.2, look="i", length=1)
    t.over(15, "state, while they train")
    t.together(17.3, range(4), 2)
    t.over(18.3, "exchange")
    for row in range(4):
        t.work(row, 19.8, 20.8, 21.8, look="b")
    return t


@picture
def concept_cluster():
    p = Picture(764, 250)
    for x, title, peers, kind in [(8, "at home", ["laptop"], "home connection"), (268, "in a cloud", ["instance", "instance"], "may be taken away"),
                                  (538, "on another continent", ["GPU", "GPU", "GPU"], "fast among themselves")]:
        width = 214
        p.box(x, 40, width, 96, "p", round_=10)
        p.text(x + width / 2, 30, title, bold=True)
        for i, name in enumerate(peers):
            gap = width / len(peers)
            p.box(x + gap * (i + 0.5) - 32, 62, 64, 34, "b", (name,))
        p.text(x + width / 2, 124, kind, "m", size=12)
    for a, b in [(222, 268), (482, 538)]:
        p.line(a, 88, b, 88, "k", True, 2)
    p.add('<path class="k" d="M115 136C160 214 600 214 645 136" stroke-width="2" stroke-dasharray="4 4"/>')
    p.text(380, 172, "slow lines that break", "m")
    p.text(380, 232, "Every peer computes all the time; they exchange what they learned now and then, a few bits a value.", "m", size=12.5)
    return p


def steps(t, rows, times, look="w"):
    for row in rows:
        t.work(row, *times, look=look)


def ends(t, rows, when):
    """A bar across each: they end because of an error."""
    for row in rows:
        t.line(t.x(when), t.y(row) - 11, t.x(when), t.y(row) + 11, "f", width=3)


@picture
def policy_every_step():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 14)
    for i in range(7):
        steps(t, range(3), [2 * i])
        t.together(2 * i + 1, range(3), 0.9)
    return t


@picture
def policy_periodic():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 14)
    for begin in (0, 7):
        steps(t, range(3), [begin + i for i in range(6)])
        t.together(begin + 6, range(3), 0.9)
    return t


@picture
def policy_rounds():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 18)
    steps(t, range(3), range(18))
    for begin, name in ((3, "fragment A"), (9, "fragment B"), (15, "fragment A")):
        t.together(begin, range(3), 2, faint=True)
        t.over(begin + 1, name)
    return t


@picture
def policy_gossip():
    t = Timeline(["peer 0", "peer 1", "peer 2", "peer 3"], 16)
    for begin, pairs in ((0, ((0, 1), (2, 3))), (5, ((0, 2), (1, 3))), (10, ((0, 3), (1, 2)))):
        steps(t, range(4), [begin + i for i in range(4)])
        for i, (a, b) in enumerate(pairs):
            x = t.x(begin + 4.3 + 0.35 * i)
            t.line(x, t.y(a), x, t.y(b), "x", width=4)
            for row in (a, b):
                t.box(x - 5, t.y(row) - 5, 10, 10, "x", round_=5)
    steps(t, range(4), [15])
    return t


@picture
def policy_async_parameter_server():
    t = Timeline(["hub", "fast peer", "slow peer"], 16)
    for begin in (0, 4, 8, 12):
        t.work(1, *[begin + i for i in range(3)])
        t.send(begin + 3, 1, begin + 3.4, 0)
        t.send(begin + 3.5, 0, begin + 3.9, 1, "k")
    for begin in (0, 7):
        for i in range(3):
            t.work(2, begin + 2 * i, length=2)
        t.send(begin + 6, 2, begin + 6.4, 0)
        t.send(begin + 6.5, 0, begin + 6.9, 2, "k")
    for at in (3.4, 6.4, 7.4, 11.4, 13.4, 15.4):
        t.work(0, at, look="b", length=0.5)
    return t


@picture
def policy_mirrors():
    t = Timeline(["fast peer", "peer", "slow peer"], 15)  # at most three clocks ahead
    t.work(0, 0, 1, 2, 3, 6.4, 9.4, 12.4)
    for begin, end in ((4, 6.4), (7.4, 9.4), (10.4, 12.4), (13.4, 15)):
        t.wait(0, begin, end)
    for i in range(6):
        t.work(1, 2.5 * i, length=2.5)
    for i in range(5):
        t.work(2, 3 * i, length=3)
    for end, row, other in ((1, 0, 1), (3, 0, 1), (5, 1, 2), (6, 2, 0), (7.4, 0, 1), (9, 2, 0), (10, 1, 2), (12, 2, 0)):
        t.send(end, row, end + 0.4, other)
    return t


@picture
def policy_by_site():
    t = Timeline(["site A, 0", "site A, 1", "site B, 2", "site B, 3"], 15)
    for i in range(9):
        begin = 1.5 * i + (1.2 if i >= 4 else 0) + (1.2 if i >= 8 else 0)
        steps(t, range(4), [begin])
        t.together(begin + 1, (0, 1), 0.4, faint=True)
        t.together(begin + 1, (2, 3), 0.4, faint=True)
    for at in (6, 13.2):
        t.together(at, range(4), 0.9)
    return t


@picture
def policy_data_parallel():
    t = Timeline(["peer 0", "peer 1"], 14)
    for begin in (0, 7):
        for row in range(2):
            for i in range(3):
                t.work(row, begin + 1.8 * i, word=f"F{i}", length=0.8)
                t.work(row, begin + 1.8 * i + 0.8, look="b", word=f"B{i}")
        t.together(begin + 5.5, (0, 1), 0.9, faint=True)
    return t


def one_f_one_b(t, rows, begin, stages, micro, until=99.0):
    """1F1B of unit passes, drawn as far as `until`; gives the end."""
    forward, backward, free = {}, {}, [begin] * stages
    plans = [["F"] * min(stages - s, micro) + ["B", "F"] * (micro - min(stages - s, micro)) + ["B"] * min(stages - s, micro) for s in range(stages)]
    counts, at = [[0, 0] for _ in range(stages)], [0] * stages
    while any(at[s] < len(plans[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(plans[s]):
                kind = plans[s][at[s]]
                m = counts[s][kind == "B"]
                needs = (forward.get((s - 1, m)) if s else begin) if kind == "F" else (backward.get((s + 1, m)) if s < stages - 1 else forward.get((s, m)))
                if needs is None:
                    break
                start = max(free[s], needs)
                if start < until:
                    t.work(rows[s], start, look="w" if kind == "F" else "b", word=str(m))
                (forward if kind == "F" else backward)[s, m] = free[s] = start + 1
                counts[s][kind == "B"] += 1
                at[s] += 1
    return max(free)


@picture
def policy_pipeline():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 18)
    end = one_f_one_b(t, (0, 1, 2), 0, 3, 5)
    for row in range(3):
        t.work(row, end + 0.3, look="x")
    t.over(end + 0.8, "inner step")
    return t


@picture
def policy_async_pipeline():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 18)
    for m in range(8):
        for s in range(3):
            f, b = 2 * m + s, 2 * m + 5 - s
            if f < 18:
                t.work(s, f, word=str(m))
            if b < 18:
                t.work(s, b, look="b", word=str(m))
    return t


@picture
def policy_swarm():
    t = Timeline(["stage 0, peer a", "stage 0, peer b", "stage 1, peer c", "stage 1, peer d"], 16)
    for a, begin, b in ((0, 0, 2), (1, 0, 3), (0, 2, 2), (1, 2, 3), (0, 4, 2)):
        t.work(a, begin)
        t.send(begin + 1, a, begin + 1.5, b, "k")
        t.work(b, begin + 1.5)
        t.send(begin + 2.5, b, begin + 3, a, "k") if begin < 4 else None
    t.dies(3, 4.9)
    t.send(5.2, 1, 6, 2, "f")
    t.work(2, 6.5, 7.5)
    for row, end in ((0, 9.2), (1, 9.6)):
        t.send(8.5, 2, end, row, "k")
        t.work(row, end + 0.2, look="b")
    t.together(11.2, (0, 1), 1, faint=True)
    t.together(11.2, (2,), 1, faint=True)
    t.over(11.7, "sums of each stage")
    steps(t, range(3), [13, 14])
    return t


@picture
def policy_elastic_pipeline():
    t = Timeline(["peer 0", "peer 1", "peer 2", "peer 3", "peer 4 (spare)"], 18)
    one_f_one_b(t, (0, 1), 0, 2, 3)
    one_f_one_b(t, (2, 3), 0, 2, 3, until=5)
    t.dies(3, 5.4)
    t.box(t.x(8.7), t.TOP - 1, 2, t.ROW * 5 + 2, "g", round_=0)
    t.over(9, "new layout")
    t.send(9.1, 1, 10.4, 4)
    one_f_one_b(t, (0, 1), 10.6, 2, 2)
    one_f_one_b(t, (2, 4), 10.6, 2, 2)
    return t


@picture
def policy_local_pipeline():
    t = Timeline(["pipeline A, stage 0", "pipeline A, stage 1", "pipeline B, stage 0", "pipeline B, stage 1"], 18)
    for begin in (0, 6):
        for rows in ((0, 1), (2, 3)):
            one_f_one_b(t, rows, begin, 2, 2)
    t.over(3, "step")
    t.over(9, "step")
    for i, (a, b) in enumerate(((0, 2), (1, 3))):
        x = t.x(12.6 + 0.5 * i)
        t.line(x, t.y(a), x, t.y(b), "x", width=5)
    t.over(12.9, "exchange")
    for rows in ((0, 1), (2, 3)):
        one_f_one_b(t, rows, 14, 2, 1)
    return t


@picture
def policy_local_swarm():
    t = Timeline(["stage 0, peer a", "stage 0, peer b", "stage 1, peer c", "stage 1, peer d"], 17)
    for begin in (0, 5):
        for a, b in ((0, 2), (1, 3)) if begin == 0 else ((0, 3), (1, 2)):
            t.work(a, begin)
            t.send(begin + 1, a, begin + 1.4, b, "k")
            t.work(b, begin + 1.5)
            t.work(b, begin + 2.5, look="b")
            t.work(a, begin + 3.5, look="b")
    for rows in ((0, 1), (2, 3)):
        t.together(10.2, rows, 1)
    for row in range(4):
        t.work(row, 12, 13, 15, 16, look="b" if row > 1 else "w")
    return t


@picture
def policy_quorum():
    t = Timeline(["peer 0", "peer 1", "peer 2", "peer 3"], 20)
    steps(t, range(4), range(4))
    t.together(4.2, range(4), 1.2, faint=True)
    t.dies(3, 5)
    t.together(6, range(3), 1.2)
    t.over(6.6, "again")
    steps(t, range(3), range(8, 13))
    t.send(9, 2, 10.6, 3, "x")
    t.over(10.4, "state")
    t.together(13.2, range(4), 1.2)
    steps(t, range(4), range(15, 20))
    return t


@picture
def policy_restart():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 18)
    steps(t, range(3), range(4))
    t.together(4, range(3), 0.9)
    steps(t, range(3), [5, 6])
    t.dies(1, 7.4)
    steps(t, (0, 2), [7])
    ends(t, (0, 2), 8.4)
    t.over(9.3, "all come together")
    steps(t, range(3), [11, 12, 13, 14])
    t.over(13.3, "from the checkpoints")
    t.together(15, range(3), 0.9)
    steps(t, range(3), [16])
    return t


@picture
def policy_fail_stop():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 14)
    steps(t, range(3), range(5))
    t.together(5, range(3), 0.9)
    steps(t, range(3), [6, 7])
    t.dies(1, 8.4)
    steps(t, (0, 2), [8, 9])
    ends(t, (0, 2), 10.3)
    return t


@picture
def policy_expert_layer():
    t = Timeline(["trainer 0", "trainer 1", "expert host a", "expert host b"], 16)
    for row, begin, hosts in ((0, 0, (2, 3)), (1, 0.6, (3, 2)), (0, 7, (2, 2)), (1, 7.6, (3, 3))):
        t.work(row, begin)
        t.send(begin + 1, row, begin + 1.6, hosts[0])
        t.work(hosts[0], begin + 1.7, look="b")
        t.send(begin + 2.7, hosts[0], begin + 3.3, row, "k")
        t.work(row, begin + 3.4)
        t.send(begin + 4.4, row, begin + 5, hosts[1])
        t.work(hosts[1], begin + 5.1, look="x")
    return t


@picture
def policy_tuned_model():
    t = Timeline(["client", "server, blocks 0-7", "server, blocks 8-15"], 16)
    for begin in (0, 8):
        t.work(0, begin)
        for a, b, at, look in ((0, 1, 1, "w"), (1, 2, 2.5, "w"), (2, 1, 5, "b")):
            t.send(begin + at, a, begin + at + 0.4, b, "k")
            t.work(b, begin + at + 0.5, look=look)
        t.work(2, begin + 4, look="b")
        t.send(begin + 6.5, 1, begin + 6.9, 0, "k")
        t.work(0, begin + 7, look="x")
    return t


@picture
def preset_one_late():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 15)
    for i in range(5):
        for row in range(3):
            t.work(row, 3 * i, length=3)
        if i > 0:
            t.together(3 * i, range(3), 2.2, faint=True)
            t.over(3 * i + 1.1, f"rows of step {i}")
    return t


@picture
def preset_eager_diloco():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 18)
    steps(t, range(3), range(18))
    for i, begin in enumerate((6, 12)):
        t.together(begin, range(3), 5.8, faint=True)
        t.over(begin + 3, f"rows of round {i + 1}")
        t.line(t.x(begin), t.TOP, t.x(begin), t.y(2) + 14, "k", dashed=True)
    t.over(3, "round 1")
    return t


@picture
def preset_sparta_diloco():
    t = Timeline(["peer 0", "peer 1", "peer 2"], 15)
    for i in range(9):
        begin = 1.4 * i + (1.1 if i >= 8 else 0)
        steps(t, range(3), [begin])
        t.together(begin + 1, range(3), 0.35, faint=True)
    t.together(11.2, range(3), 1)
    t.over(11.7, "all of it")
    t.over(3, "a few entries")
    return t


@picture
def preset_dedloc():
    t = Timeline(["slow peer", "fast peer", "faster peer"], 15)
    for begin in (0, 7.6):
        for row, length in ((0, 3), (1, 1.5), (2, 1)):
            for k in range(int(6 / length)):
                t.work(row, begin + k * length, length=length)
        t.together(begin + 6.1, range(3), 0.9)
    t.over(6.6, "all samples are there")
    return t


@picture
def preset_a_edit():
    t = Timeline(["slow peer", "fast peer", "faster peer"], 15)
    for begin in (0, 7.6):
        for row, length, count in ((0, 3, 2), (1, 1.8, 3), (2, 1.05, 5)):
            for k in range(count):
                t.work(row, begin + k * length, length=length)
        t.line(t.x(begin + 5), t.TOP, t.x(begin + 5), t.y(2) + 14, "k", dashed=True)
        t.together(begin + 6.1, range(3), 0.9)
    t.over(5, "T is over")
    return t


@picture
def preset_halos():
    t = Timeline(["global hub", "hub of region 0", "peer", "peer", "hub of region 1", "peer"], 17)
    for row, hub, length in ((2, 1, 2), (3, 1, 3), (5, 4, 2.5)):
        begin = 0.0
        while begin + length + 1 < 17:
            t.work(row, begin, length=length)
            t.send(begin + length, row, begin + length + 0.3, hub)
            t.work(hub, begin + length + 0.3, look="b", length=0.4)
            t.send(begin + length + 0.6, hub, begin + length + 0.9, row, "k")
            begin += length + 1
    for hub, at in ((1, 6.8), (4, 8.2)):
        t.send(at, hub, at + 0.8, 0)
        t.work(0, at + 0.8, look="b", length=0.5)
        t.send(at + 1.3, 0, at + 2.3, hub, "k")
    return t


@picture
def preset_ravnest():
    t = Timeline(["cluster 0, hub", "cluster 0, peer", "cluster 1, hub", "cluster 1, peer"], 16)
    for begin in (0, 9.4):
        steps(t, range(4), [begin + i for i in range(5)])
    t.together(5.1, (0, 1), 0.9, faint=True)
    t.together(5.1, (2, 3), 0.9, faint=True)
    x = t.x(6.9)
    t.line(x, t.y(0), x, t.y(2), "x", width=4)
    for row in (0, 2):
        t.box(x - 5, t.y(row) - 5, 10, 10, "x", round_=5)
    t.over(6.9, "ring of hubs")
    t.together(7.8, (0, 1), 0.9, faint=True)
    t.together(7.8, (2, 3), 0.9, faint=True)
    return t


@picture
def preset_dipaco():
    t = Timeline(["path A1", "path A2", "path B1", "path B2"], 18)
    for begin in (0, 10.5):
        steps(t, range(4), [begin + i for i in range(6)])
    t.together(6.1, (0, 1), 0.8)
    t.together(6.1, (2, 3), 0.8)
    t.over(6.5, "A, B")
    for i, (a, b) in enumerate(((0, 2), (1, 3))):
        x = t.x(7.6 + 0.5 * i)
        t.line(x, t.y(a), x, t.y(b), "x", width=5)
    t.over(7.9, "1, 2")
    t.together(8.9, range(4), 0.8, faint=True)
    t.over(9.4, "what all share")
    return t


def in_order(t, orders, until=99.0):
    """Passes of unit length in each stage's own order: F, I (input gradients), W (weight gradients), or B for both in two units."""
    done, free, at = {}, [0.0] * len(orders), [0] * len(orders)
    while any(at[s] < len(orders[s]) for s in range(len(orders))):
        for s, order in enumerate(orders):
            while at[s] < len(order):
                kind, m = order[at[s]]
                first = {"F": ("F", s - 1), "I": ("I", s + 1) if s + 1 < len(orders) else ("F", s), "W": ("I", s), "R": ("F", s),
                         "B": ("I", s + 1) if s + 1 < len(orders) else ("F", s)}[kind]
                needs = 0.0 if first[1] < 0 else done.get((*first, m))
                if needs is None:
                    break
                begin, length = max(free[s], needs), 2 if kind == "B" else 1
                t.work(s, begin, look={"F": "w", "R": "i"}.get(kind, "b"), word=str(m) + {"W": "w"}.get(kind, ""), length=length)
                free[s] = done[kind if kind != "B" else "I", s, m] = begin + length
                at[s] += 1
    return max(free)


@picture
def preset_gpipe():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 21)
    end = in_order(t, [[(k, m) for k in "FB" for m in range(4)]] * 3)
    for row in range(3):
        t.work(row, end + 0.3, look="x")
    t.over(end + 0.8, "inner step")
    return t


@picture
def preset_varuna():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 22)
    orders = [[("F", 0), ("F", 1), ("F", 2), ("R", 0), ("B", 0), ("R", 1), ("B", 1), ("R", 2), ("B", 2)],
              [("F", 0), ("F", 1), ("F", 2), ("R", 0), ("B", 0), ("R", 1), ("B", 1), ("R", 2), ("B", 2)],
              [("F", 0), ("B", 0), ("F", 1), ("B", 1), ("F", 2), ("B", 2)]]
    end = in_order(t, orders)
    for row in range(3):
        t.work(row, end + 0.3, look="x")
    t.over(6, "outlined: forward again")
    return t


@picture
def preset_crosspipe():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 18)
    orders = [[("F", 0), ("F", 1), ("F", 2), ("I", 0), ("F", 3), ("I", 1), ("W", 0), ("I", 2), ("W", 1), ("I", 3), ("W", 2), ("W", 3)],
              [("F", 0), ("F", 1), ("I", 0), ("F", 2), ("I", 1), ("F", 3), ("I", 2), ("W", 0), ("I", 3), ("W", 1), ("W", 2), ("W", 3)],
              [("F", 0), ("I", 0), ("F", 1), ("I", 1), ("F", 2), ("I", 2), ("F", 3), ("I", 3), ("W", 0), ("W", 1), ("W", 2), ("W", 3)]]
    end = in_order(t, orders)
    for row in range(3):
        t.work(row, end + 0.3, look="x")
    return t


@picture
def preset_bamboo():
    t = Timeline(["stage 0", "stage 1", "stage 2"], 18)
    one_f_one_b(t, (0, 1, 2), 0, 3, 4, until=6)
    for row, at, word in ((0, 3, "0'"), (0, 4, "1'"), (1, 3, "0'")):
        t.work(row, at, look="i", word=word)
    t.dies(2, 6.3)
    t.box(t.x(7.2), t.TOP - 1, 2, t.ROW * 3 + 2, "g", round_=0)
    t.over(9.4, "stage 1 does what is left of stage 2")
    for at, look, word in ((7.6, "i", "2'"), (8.6, "b", "2'"), (9.6, "b", "2"), (10.6, "w", "3"), (11.6, "i", "3'"), (12.6, "b", "3'"), (13.6, "b", "3")):
        t.work(1, at, look=look, word=word)
    for at, look, word in ((9.8, "w", "3"), (10.8, "b", "2"), (14.8, "b", "3")):
        t.work(0, at, look=look, word=word)
    return t


@picture
def preset_recycle():
    t = Timeline(["pipeline A, stage 0", "pipeline A, stage 1", "pipeline B, stage 0", "pipeline B, stage 1"], 14)
    for row in (0, 2):
        for m in range(2):
            t.work(row, m, word=str(m))
    t.dies(1, 0.6)
    for i, (m, look) in enumerate(((0, "w"), (0, "x"), (1, "w"), (1, "x"))):
        t.work(3, 1.2 + i, look=look, word=str(m))
    for i, (m, look) in enumerate(((0, "b"), (0, "x"), (1, "b"), (1, "x"))):
        t.work(3, 5.2 + i, look=look, word=str(m))
    for m in range(2):
        t.send(1 + m, 0, 2.2 + 2 * m, 3)
        t.send(7.2 + 2 * m, 3, 8.4 + 2 * m, 0)
        t.work(0, 8.5 + 2 * m, look="b", word=str(m))
        t.work(2, 6.3 + 2 * m, look="b", word=str(m))
    t.over(4, "orange: of the other pipeline")
    return t


@picture
def preset_checkfree_plus():
    t = Timeline(["ends", "stage 1", "stage 2", "stage 3", "stage 4"], 16)
    for m, way in enumerate([(1, 2, 3, 4), (2, 1, 4, 3)]):
        begin = 0.2 + 1.2 * m
        for place, (rank, to) in enumerate(zip((0, *way), (*way, 0))):
            t.work(rank, begin + 2.4 * place, word=str(m), length=0.8)
            t.send(begin + 2.4 * place + 0.8, rank, begin + 2.4 * (place + 1), to)
        t.work(0, begin + 12, word=str(m), length=0.8)
    return t


@picture
def preset_checkfree():
    t = Timeline(["stage 0", "stage 1", "stage 2", "newcomer"], 18)
    one_f_one_b(t, (0, 1, 2), 0, 3, 3, until=4)
    t.dies(1, 4.4)
    t.send(5.6, 0, 7.2, 3)
    t.send(5.6, 2, 7.2, 3)
    t.over(6.2, "neighbours' parameters")
    t.work(3, 7.4, look="x", length=1.4)
    t.over(8.4, "their mean")
    one_f_one_b(t, (0, 3, 2), 9.2, 3, 2)
    return t


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = 0
    for name, draw in PICTURES.items():
        path, svg = IMAGES / f"{name}.svg", draw().svg()
        if not path.exists() or path.read_text() != svg:
            stale += 1
            print(f"docs/images/{name}.svg: " + ("is not what tools/diagrams.py draws; run it" if check else "written"))
            if not check:
                path.write_text(svg)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
