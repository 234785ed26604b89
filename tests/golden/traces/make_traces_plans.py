#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes traces of plans beside it: python3 make_traces_plans.py [NAME...]. See make_traces.py."""
import math

import numpy as np

from make_traces import Trace, rounded, set_tensors
from make_traces_pipelines import philox, write

set_tensors([("x", "vector", 1, 1, 0, 1.0, 1.0)])  # plans train nothing


class Draws:
    """The library's numbers, which are no part of any method: causeway::rng of a seed and a purpose."""

    def __init__(self, seed, purpose):
        self.seed, self.position = seed, 0
        self.stream = philox((0, 0, 0, 0), purpose)

    def next(self):
        at, self.position = self.position, self.position + 1
        return philox((at, 0, self.stream & 0xFFFFFFFF, self.stream >> 32), self.seed)

    def uniform(self):
        return (self.next() >> 40) * 2.0**-24

    def below(self, bound):
        most = 2**64 - 1
        while True:
            draw = self.next()
            if draw < most - most % bound:
                return draw % bound


class Flow:
    """At one peer: before (upstream) and after (downstream) are Flows at its neighbours."""

    def __init__(self, at, target):
        self.at, self.target, self.before, self.after, self.cost, self.waited = at, target, None, None, 0.0, 0


class Peer:
    def __init__(self, number, stage, capacity):
        self.number, self.stage, self.capacity = number, stage, capacity
        self.flows, self.heat, self.unwanted, self.ignored, self.here = [], 1.7, 0, {}, True

    def out(self):
        return sum(f.after is not None for f in self.flows)

    def taken(self):
        return sum(f.before is not None for f in self.flows)

    def offers(self):
        return [f for f in self.flows if f.before is None and f.after is not None] if self.stage else []


class Protocol:
    def __init__(self, peers, link, seed):
        self.peers, self.link, self.draws = peers, link, Draws(seed, 0x666C6F77)
        self.last = max(p.stage for p in peers)
        self.counts = {"taken": 0, "changed": 0, "redirected": 0}

    def stage(self, number):
        return [p for p in self.peers if p.here and p.stage == number % (self.last + 1)]

    def d(self, a, b):
        return self.link[a.number][b.number]

    def period(self):
        order = [p for p in self.peers if p.here]
        for i in range(len(order), 1, -1):
            j = self.draws.below(i)
            order[i - 1], order[j] = order[j], order[i - 1]
        for peer in order:
            self.act(peer)

    def act(self, p):
        if p.stage:
            for f in list(p.flows):  # outstanding_inflow, PUSH_BACK_FLOW
                if f.after is None:
                    f.waited += 1
                    if f.waited == 12:
                        p.flows.remove(f)
                        self.without_way(f.before)
            if p.offers():  # idles_with_outflow, CANCEL_FLOW
                p.unwanted += 1
                if p.unwanted == 10:
                    p.unwanted = 0
                    for f in p.offers():
                        p.flows.remove(f)
                        self.without_user(f.after)
                    return
        if not p.offers() and p.out() < p.capacity:
            best = self.cheapest(p)
            if best:
                return self.take(p, *best)
        if p.stage and self.draws.uniform() < (0.1 if p.offers() else 0.3):
            self.look(p)

    def cheapest(self, p):
        """get_next_node"""
        seeking = {f.target for f in p.flows if f.after is None} if p.stage else {p}
        known = []
        for q in self.stage(p.stage + 1):
            if q.stage == 0 and q.taken() < q.capacity:
                known.append((self.d(p, q), q, None, q))
            known += [(self.d(p, q) + f.cost, q, f, f.target) for f in q.offers()]
        known = [o for o in known if not seeking or o[3] in seeking]
        return min(known, key=lambda o: o[0])[1:] if known else None

    def take(self, p, q, f, target):
        self.counts["taken"] += 1
        if f is None:
            f = Flow(q, q)
            q.flows.append(f)
        p.unwanted = 0
        self.give(p, target, f)

    def give(self, p, target, f):
        """add_outflow: for a flow that looks for a way, or as an offer."""
        own = next((g for g in p.flows if p.stage and g.after is None and g.target is target), None)
        if own is None:
            own = Flow(p, target)
            p.flows.append(own)
        self.connect(own, f)

    def connect(self, f, after):
        f.after, after.before, f.waited = after, f, 0
        while f is not None:  # NOTIFY_CHANGE_IN_COST
            f.cost = self.d(f.at, f.after.at) + f.after.cost
            f = f.before

    def without_way(self, f):
        f.after = None
        if f.before is None:
            f.at.flows.remove(f)

    def without_user(self, f):
        f.before = None
        if f.after is None:
            f.at.flows.remove(f)

    def look(self, p):
        """get_same, PROPOSE_CHANGE, PROPOSE_REDIRECT"""
        gain, what = 0.0, None

        def consider(value, how):
            nonlocal gain, what
            if value > gain or (gain <= 0 and math.exp(value / p.heat) > self.draws.uniform()):
                gain, what = value, how
        for q in self.stage(p.stage):
            if q is p:
                continue
            if p.ignored.get(q, 0) > 0:
                p.ignored[q] -= 1
                continue
            for theirs in q.flows:
                if theirs.after is None:
                    continue
                to = theirs.after.at
                if theirs.before is not None and p.out() < p.capacity:
                    via = theirs.before.at
                    consider(self.d(via, q) + self.d(q, to) - self.d(via, p) - self.d(p, to), (q, theirs, None))
                for mine in p.flows:
                    if mine.after is not None and mine.after.at is not to and mine.target is theirs.target:
                        own = mine.after.at
                        consider(self.d(q, to) + self.d(p, own) - self.d(q, own) - self.d(p, to), (q, theirs, mine))
        if what is None:
            return
        q, theirs, mine = what
        p.ignored[q] = 5
        if not (gain > 0 or math.exp(gain / q.heat) > self.draws.uniform()):
            return
        p.heat, q.heat = 0.95 * p.heat, 0.95 * q.heat
        if mine is None:
            self.counts["redirected"] += 1
            q.flows.remove(theirs)
            self.without_way(theirs.before)
            self.give(p, theirs.target, theirs.after)
        else:
            self.counts["changed"] += 1
            a, b = mine.after, theirs.after
            self.connect(mine, b)
            self.connect(theirs, a)

    def lose(self, p):
        p.here = False
        for f in p.flows:
            if f.before is not None:
                self.without_way(f.before)
            if f.after is not None:
                self.without_user(f.after)

    def paths(self):
        found = []
        for f in (f for p in self.stage(0) for f in p.flows if f.after is not None):
            way = [f.at]
            while f.after is not None and f.after.at.stage:
                f = f.after
                way.append(f.at)
            if f.after is not None:
                found.append(way)
        return found


def gwtf_flow():
    """GWTF's decentralised flow: Blagoev et al. 2025 (2509.21221) is not public as code. Its first author's earlier program is:
    github.com/NikolayBlagoev/DecCom-Python, commit 099f5a5 (April 2024), flowprotocol.py, flownode.py, flownode_ss.py: flows
    grow from the sink; peers of a stage change two flows' ways or redirect one, where that is cheaper, or with
    exp(gain / T) where it is not; T = 1.7, and 0.95 of it after each for both; nobody takes an offer for 10 periods: it is
    withdrawn; a flow without a way for 12 goes back to the peer before.

    Different from the program: a request is answered before the next peer acts, so none crosses another; costs are told at
    once, not every twelfth period too; the asker of a change cools once (there twice); data are offered to by each flow's own
    target (there a data peer waits while a peer's cheapest offer is to another one); the flow that a change is about is the
    one that it is cheaper for (there the first with the same next peer).

    Two data peers with 3 and 2 micro-batches, three stages of four peers with room for 1 or 2; after 60 of 120 periods a peer
    of stage 2 is lost. Order and chances are drawn by the library. Of every period: complete flows, their cost, and how
    many offers were taken, ways changed, flows redirected; at the end the paths, and every peer's temperature.
    """
    periods, lost_after, lost = 120, 60, 7
    stage = [0, 0] + [1] * 4 + [2] * 4 + [3] * 4
    capacity = [3, 2] + [2, 2, 1, 1] + [1, 2, 2, 2] + [2, 1, 1, 2]
    random = np.random.default_rng(11)
    link = rounded(random.uniform(1, 10, size=(len(stage), len(stage))))
    link = np.triu(link, 1) + np.triu(link, 1).T
    trace = Trace("gwtf_flow", len(stage), [periods])
    for name, values in (("stage", stage), ("capacity", capacity), ("costs", link), ("lost", [lost_after, lost])):
        trace.put(name, values)
    all_ = [Peer(i, s, c) for i, (s, c) in enumerate(zip(stage, capacity))]
    run = Protocol(all_, link.tolist(), 5)
    for n in range(periods):
        if n == lost_after:
            run.lose(all_[lost])
        run.period()
        ways = run.paths()
        cost = sum(run.d(a, b) for way in ways for a, b in zip(way, way[1:] + way[:1]))
        trace.put(f"period {n}", [len(ways), cost, *run.counts.values()])
    trace.put("paths", [p.number for way in run.paths() for p in way])
    trace.put("temperature", [p.heat for p in all_])
    return trace


def stella_train_rates():
    """StellaTrain's controller: Lim et al. 2024 (SIGCOMM); github.com/kaist-ina/stellatrain, commit 6dccb2d,
    backend/src/engine/batch_rate_alloc_optim.py. A device's pace is min(β/α · x, β) samples per second of backward passes, fit by
    least squares; batches x minimise (1 + 50 h(Σx, bandwidth)) · max(x/f) / Σx + 5 · std(x/f)/mean(x/f); the share of values is the
    largest whose bytes go out in the passes' time, over nodes - 1; the bandwidth is 0.9 · before + 0.1 · measured, then · 1.1, or
    · max(0.75, 1 - waiting) where at least 5 % of a step is that.

    Different from the program: passes take 3/2 · mean(x/f) seconds (there milliseconds of 3/2 · mean(f), which is a pace), and
    a global batch of the profile's devices 3/2 of backward passes (there 9/4); the bandwidth is one in Mbit/s where the profile's
    is (there 1,000 times that of Gbit/s). h is a table; there a Gaussian process whose files need its authors' packages.

    Three devices. `fit`: α, β of the measurements, by trying 400,000 knees. `best`: the least objective of all 20 · 24 · 16 batches,
    for each of three bandwidths; `share`, with the batches that are best; `bytes` of 0.001, 0.01, 0.1 and 1 of all values;
    `bandwidths`, of what was before, measured, waited and computed.
    """
    trace = Trace("stella_train_rates", 3, [0])
    random = np.random.default_rng(23)
    alphas, betas, most = np.array([18.0, 22.0, 30.0]), np.array([150.0, 260.0, 110.0]), [20, 24, 16]
    for d in range(3):
        batches = np.array([4, 8, 12, 20, 28, 44, 60], dtype=float)
        pace = rounded(np.minimum(betas[d] / alphas[d] * batches, betas[d]) * random.uniform(0.9, 1.1, size=batches.size))
        trace.put(f"batches {d}", batches)
        trace.put(f"pace {d}", pace)
        knees = np.linspace(16, 60, 400001)[:, None]
        form = np.minimum(batches / knees, 1)
        full = np.maximum((form * pace).sum(1) / (form * form).sum(1), 100)
        at = np.argmin(((full[:, None] * form - pace)**2).sum(1))
        trace.put(f"fit {d}", [knees[at, 0], full[at]])

    alphas, betas = np.array([2.0, 6.0, 3.0]), np.array([150.0, 260.0, 110.0])
    for name, values in (("knee", alphas), ("full", betas), ("most", most)):
        trace.put(name, values)
    grid_batches, grid_bandwidth = np.array([8.0, 20, 40, 64]), np.array([50.0, 200, 1000])
    worse = rounded(random.uniform(0, 0.05, size=(4, 3)))
    for name, values in (("grid batches", grid_batches), ("grid bandwidth", grid_bandwidth), ("worse", worse)):
        trace.put(name, values)

    def h(batch, bandwidth):
        rows = [np.interp(bandwidth, grid_bandwidth, row) for row in worse]
        return np.interp(batch, grid_batches, rows)

    def f(d, x):
        return np.minimum(betas[d] / alphas[d] * x, betas[d])

    sizes, nodes = [70000, 3000, 400, 250000], 4
    trace.put("sizes", sizes)

    def sent(share):  # estimate_tx_bytes
        total = 0
        for size in sizes:
            payload = 2 + 1 + 8 + 16 + 1 + 1 + 1 + 8 + 1 + 8 + 8 * max(1, math.ceil(share * size))
            total += payload + 66 * math.ceil((payload + 1472 - 1) / 1472)
        return total
    trace.put("bytes", [sent(s) for s in (0.001, 0.01, 0.1, 1)])
    x = np.stack(np.meshgrid(*(np.arange(1, m + 1.0) for m in most), indexing="ij"), axis=-1).reshape(-1, 3)
    seconds = np.stack([x[:, d] / f(d, x[:, d]) for d in range(3)], axis=1)
    for bandwidth in (60.0, 300.0, 900.0):
        worst = 1 + 50 * np.array([h(s, bandwidth) for s in x.sum(1)])
        objective = worst * seconds.max(1) / x.sum(1) + 5 * seconds.std(1) / seconds.mean(1)
        at = np.argmin(objective)
        room = bandwidth * 1e6 / 8 * 1.5 * seconds[at].mean()
        shares = np.linspace(0.001, 1, 50001)
        share = max((s for s in shares if sent(s) <= room), default=0.001) / (nodes - 1)
        trace.put(f"best {int(bandwidth)}", [objective[at], share, *x[at]])
    steps = [(100, 100, 0, 1), (100, 50, 0.2, 0.8), (100, 140, 0.9, 0.1), (100, 100, 0.04, 0.96)]
    trace.put("bandwidths", steps)
    after = []
    for before, measured, waited, computed in steps:
        part = waited / (waited + computed)
        mean = 0.9 * before + 0.1 * measured
        after.append(mean * 1.1 if part < 0.05 else mean * max(0.75, 1 - part))
    trace.put("after", after)
    return trace


TRACES = [gwtf_flow, stella_train_rates]

if __name__ == "__main__":
    write(TRACES)
