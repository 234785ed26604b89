#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of SkipPipe: python3 make_traces_skips.py [CHECKOUT]. See make_traces.py. CHECKOUT: the authors' code,
github.com/gensyn-ai/skippipe at 1443624; then every cost that it finds too is compared with it (needs joblib).
"""
import heapq
import itertools
import sys

import numpy as np

from make_traces import rounded, write
from make_traces_models import Lines

INFINITY = float("inf")


class Task:
    """Peers are numbered stage by stage. Groups begin one after another at the first stage's peers."""

    def __init__(self, seed, sizes, passes, groups_of_peer, room):
        random = np.random.default_rng(seed)
        self.sizes, self.passes, self.groups_of_peer, self.room = sizes, passes, groups_of_peer, room
        peers = iter(range(sum(sizes)))
        self.stages = [[next(peers) for _ in range(size)] for size in sizes]
        self.forward = rounded(random.uniform(0.5, 2, size=sum(sizes)))
        self.backward = rounded(1.5 * self.forward)
        ways = rounded(random.uniform(0.1, 2, size=(sum(sizes), sum(sizes))))
        self.ways = np.triu(ways, 1) + np.triu(ways, 1).T
        self.groups = sizes[0] * groups_of_peer
        middle = len(sizes) - 2
        self.most_in_stage = -(-self.groups * (passes - 2) // middle)

    def first(self, group):
        return self.stages[0][group // self.groups_of_peer]

    def paths(self, group):
        for chosen in itertools.combinations(range(1, len(self.sizes) - 1), self.passes - 2):
            yield from itertools.product([self.first(group)], *(self.stages[s] for s in chosen), self.stages[-1])

    def visits(self, group, path, occupied=()):
        """(peer, start, end) of all passes: each begins when its input is there and nothing else occupies its peer."""
        now, passes = (group % self.groups_of_peer) * self.forward[self.first(group)], []

        def take(peer, seconds):
            nonlocal now
            while True:
                ends = [end for p, start, end in occupied if p == peer and now < end and start < now + seconds]
                if not ends:
                    break
                now = max(ends)
            passes.append((peer, now, now + seconds))
            now += seconds
        for before, peer in zip((None,) + path, path):
            now += 0 if before is None else self.ways[before, peer]
            take(peer, self.forward[peer])
        back = path[::-1]
        for before, peer in zip((None,) + back, back):
            now += 0 if before is None else self.ways[before, peer]
            take(peer, self.backward[peer])
        return passes

    def quickest(self, group, banned=(), occupied=()):
        """All ways are tried: when the last pass ends, and the passes."""
        allowed = [p for p in self.paths(group) if not set(p) & set(banned)]
        tried = [(v[-1][2], v) for v in (self.visits(group, p, occupied) for p in allowed)]
        return min(tried) if tried else (INFINITY, None)

    def crowds(self, paths, peers_too):
        """Whether a stage or a peer has too many groups."""
        for stage in self.stages[1:-1]:
            if sum(len(set(stage) & set(p)) for p in paths) > self.most_in_stage:
                return True
        return peers_too and any(sum(peer in p for p in paths) > self.room for peer in range(sum(self.sizes)))

    def least_slowest(self, peers_too):
        """Of all plans in which no stage (and no peer) has too many groups: the least end of the slowest group."""
        ways = [sorted((self.visits(g, p)[-1][2], p) for p in self.paths(g)) for g in range(self.groups)]

        def fits(limit, taken):
            if self.crowds(taken, peers_too):
                return False
            if len(taken) == self.groups:
                return True
            return any(fits(limit, taken + [p]) for end, p in ways[len(taken)] if end <= limit)
        return next(limit for limit in sorted({end for one in ways for end, _ in one}) if fits(limit, []))

    def without_meetings(self):
        """Conflict-based search. Every conflict, in the order: the first stage with too many groups, the first peer with
        too many, the first moment with two at a peer; each group in it is forbidden its part, in a plan of its own."""
        count = itertools.count()
        start = tuple((frozenset(), frozenset()) for _ in range(self.groups))
        known, opened, seen = {}, [], set()

        def solve(group, limits):
            if (group, limits) not in known:
                known[group, limits] = self.quickest(group, *limits)
            return known[group, limits]

        def push(plan):
            if plan in seen:
                return
            seen.add(plan)
            found = [solve(g, limits) for g, limits in enumerate(plan)]
            if all(visits for _, visits in found):
                heapq.heappush(opened, (max(end for end, _ in found), next(count), plan))

        def forbid(plan, group, peers=(), window=()):
            banned, occupied = plan[group]
            changed = (banned | frozenset(peers), occupied | frozenset(window))
            push(plan[:group] + (changed,) + plan[group + 1:])

        push(start)
        while opened:
            end, _, plan = heapq.heappop(opened)
            visits = [solve(g, limits)[1] for g, limits in enumerate(plan)]
            at = [{v[0] for v in one} for one in visits]
            crowds = [(stage, [g for g in range(self.groups) if at[g] & set(stage)], self.most_in_stage)
                      for stage in self.stages[1:-1]]
            crowds += [([p], [g for g in range(self.groups) if p in at[g]], self.room) for p in range(sum(self.sizes))]
            crowd = next(((peers, who) for peers, who, most in crowds if len(who) > most), None)
            if crowd:
                for group in crowd[1]:
                    forbid(plan, group, crowd[0])
                continue
            meetings = [(max(x[1], y[1]), x[0], a, b, x, y) for a in range(self.groups) for b in range(a + 1, self.groups)
                        for x in visits[a] for y in visits[b] if x[0] == y[0] and x[1] < y[2] and y[1] < x[2]]
            if not meetings:
                return end
            _, _, a, b, x, y = min(meetings)
            forbid(plan, a, window=[y])
            forbid(plan, b, window=[x])
        raise AssertionError("no plan")

    def put(self, lines, name):
        def put(key, values):
            lines.append(f"{key} {name} : " + " ".join(f"{np.float32(v):.9g}" for v in np.ravel(values)))
        put("sizes", self.sizes)
        put("numbers", [self.passes, self.groups_of_peer, self.room])
        put("forward", self.forward)
        put("backward", self.backward)
        put("ways", self.ways)
        return put


class Authors:
    """Their code on a task that goes round: they compute the loss, a quarter of a pass, where a group has begun."""

    def __init__(self, checkout):
        sys.path.insert(0, checkout)
        from schedulers import CBS, a_star_modified, graph
        self.cbs, self.a_star, self.graphs = CBS, a_star_modified, graph

    def graph_of(self, task):
        """Links lead up the stages, and from the middle ones to where groups begin: nothing is swapped."""
        peers = sum(task.sizes[:-1])
        matrix = [[float(task.ways[a, b]) for b in range(peers)] for a in range(peers)]
        stage_of = {p: s for s, stage in enumerate(task.stages) for p in stage}
        for a, b in itertools.product(range(peers), repeat=2):
            if a == b or stage_of[a] == stage_of[b] or (stage_of[b] < stage_of[a] and stage_of[b] > 0):
                matrix[a][b] = None
            elif stage_of[b] == 0:
                matrix[a][b] = float(task.ways[a, b]) * (1 + 1e-12)  # so that it takes both for directed
        g = self.graphs.Graph(0)
        g.add_cost_matrix(matrix, [float(v) for v in task.forward[:peers]])
        g.fill_incident_edges()
        for p in range(peers):
            g.nodes[p].properties["partition"] = stage_of[p]
        return g

    def quickest(self, task, banned, occupied):
        conflicts = [self.a_star.Conflict(0, p, start, end, 3) for p, start, end in occupied]
        visitable = np.full((1, sum(task.sizes)), 1)
        visitable[0, list(banned)] = 0
        stages = np.full((1, len(task.sizes)), 1)
        end, visits, _ = self.a_star.a_star_modified(self.graph_of(task), 0, None, 0, 0, conflicts, visitable, stages,
                                                     task.passes - 1)
        return end, [v[0] for v in visits[:task.passes - 1]]

    def slowest(self, task):
        agents = [self.a_star.Agent(k, 0, k * float(task.forward[0])) for k in range(task.groups)]
        found = self.cbs.CBS(self.graph_of(task), agents, None, task.stages[:-1], constraints=[True, True, False],
                             path_l=task.passes - 1, memory=task.room, mb_per_stage_max=task.most_in_stage)
        return found.dist


def ring_task(seed, sizes, passes, groups_of_peer, room):
    """The last stage is the first one's only peer once more, which does a quarter of a pass there, and nothing on the way back."""
    task = Task(seed, sizes + [1], passes, groups_of_peer, room)
    first, last = task.stages[0][0], task.stages[-1][0]
    task.ways[:, last], task.ways[last, :] = task.ways[:, first], task.ways[first, :]
    task.forward[last], task.backward[last] = task.forward[first] / 4, 0
    return task


def skippipe_paths(authors=None):
    """SkipPipe: Blagoev et al. 2025 (2502.19913), its search of paths; github.com/gensyn-ai/skippipe, commit
    1443624: create_schedule.py, schedulers/CBS.py, schedulers/a_star_modified.py. The reference tries all paths of a group, and
    for the first two kinds of conflicts all plans; for the third it is a conflict-based search of its own.

    route: the quickest way of one group past banned peers and times at which others occupy a peer. plan: how long the slowest
    group takes at least, with groups that begin one after another: `stages`, no more groups in a stage than evenly; `peers`,
    and no more at a peer than it has room for; `times`, and no two at a peer at a time. Backwards take 1.5 times as long as
    forwards, as there. In the cases of routes, and of plans `ring`, the loss is computed where groups begin, as there. The
    authors' A* finds the same routes. Their search finds the same `peers` in the plans `ring`, where it is kept from swapping
    stages; elsewhere it has no counterpart.
    """
    lines = []
    for case in range(6):
        task = ring_task([case, 1], [1, 2, 3, 2, 2], 5, 1, 1)
        random = np.random.default_rng([case, 2])
        end, visits = task.quickest(0)
        way = [v[0] for v in visits]
        banned = [way[1]] if case % 2 else []
        occupied = []
        for peer in range(1, sum(task.sizes) - 1):
            start = rounded(random.uniform(0, end))
            occupied.append((peer, float(start), float(rounded(start + random.uniform(0.5, 3)))))
        end, visits = task.quickest(0, banned, occupied)
        put = task.put(lines, f"route {case}")
        put("banned", [p in banned for p in range(sum(task.sizes))])
        put("occupied", occupied)
        put("seconds", [end])
        if authors:
            theirs, way = authors.quickest(task, banned, occupied)
            assert abs(theirs - end) < 1e-6 * end and way == [v[0] for v in visits[:task.passes - 1]]
    kinds = [("plan", case, Task([case, 3], sizes, passes, per_peer, room)) for case, (sizes, passes, per_peer, room) in
             enumerate([([2, 2, 2, 2, 2], 4, 2, 2), ([1, 2, 1, 2, 1], 3, 3, 3), ([2, 2, 2, 2], 3, 2, 2), ([2, 3, 2, 2, 2, 2], 4, 2, 2)])]
    kinds += [("ring", case, ring_task([case, 4], [1, 2, 2, 2], 4, 3, 3)) for case in range(3)]
    for kind, case, task in kinds:
        put = task.put(lines, f"{kind} {case}")
        put("stages", [task.least_slowest(False)])
        put("peers", [task.least_slowest(True)])
        put("times", [task.without_meetings()])
        if authors and kind == "ring":
            assert abs(authors.slowest(task) - task.least_slowest(True)) < 1e-6 * authors.slowest(task)
    return Lines("skippipe_paths", lines)


def skippipe():
    """SkipPipe: Blagoev et al. 2025 (2502.19913): micro-batches pass some of the stages, by a plan; what passes a stage is what
    the stage before it gave out, and a stage's gradient is the sum over those that passed it.

    Four stages of one block each of tests/support/timed_stages.hpp, 4 steps of 4 micro-batches of four tokens, rate 0.05;
    the two middle stages are left out in turn, as `passed` says.
    """
    steps, micro_batches, rate, width = 4, 4, float(np.float32(0.05)), 4
    passed = [(0, 1, 3), (0, 2, 3), (0, 2, 3), (0, 1, 3)]
    theta, lines = [0.0, 0.25, 0.5, 0.0], []
    lines.append("passed : " + " ".join(str(int(s in one)) for one in passed for s in range(4)))
    for step in range(steps):
        batch = [[1 + (step + 2 * i + 5 * m) % 13 for i in range(4)] for m in range(micro_batches)]
        lines.append(f"tokens {step} : " + " ".join(str(t) for tokens in batch for t in tokens))
        gradient = [0.0] * 4
        for tokens, way in zip(batch, passed):
            x, inputs = np.array(tokens) / 8, {}
            for block in way:
                inputs[block] = x
                x = x * (1 + theta[block] / 8) + block % 2
            d = x / sum(len(t) for t in batch)
            for block in reversed(way):
                gradient[block] += width * np.sum(inputs[block] * d) / 8
                d = d * (1 + theta[block] / 8)
        theta = [value - rate * g for value, g in zip(theta, gradient)]
    lines += [f"end block{b} : {np.float32(theta[b]):.9g}" for b in range(4)]
    return Lines("skippipe", lines)


if __name__ == "__main__":
    authors = Authors(sys.argv.pop(1)) if len(sys.argv) > 1 else None

    def paths():
        return skippipe_paths(authors)
    paths.__name__, paths.__doc__ = skippipe_paths.__name__, skippipe_paths.__doc__
    write([paths, skippipe])
