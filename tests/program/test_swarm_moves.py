#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Swarms whose peers move to another stage: real processes that fetch its weights and serve it from then on.
usage: test_swarm_moves.py PATH_OF_CAUSEWAY [unittest options]"""
import os, signal, unittest

from test_elastic import LONG, Elastic
from test_swarm import MICRO_BATCHES, SWARM

MOVING = ["--parallel.rebalance_every", "2"]
JOINERS = [(peer, "other") for peer in range(3)]


class SwarmMoves(Elastic):
    def stage(self, who):
        try:
            with open(os.path.join(self.folder(*who), "stage")) as f:
                return int(f.read())
        except (FileNotFoundError, ValueError):
            return None

    def moved(self):
        return [who for who in JOINERS if self.stage(who) == 1]

    def test_a_peer_of_a_crowded_stage_moves_to_the_starved_one(self):
        p = self.start(*SWARM, *MOVING, "--peers", "2", *LONG)
        self.until(lambda: self.round(0) > 5 and self.round(1) > 5, p)
        with open(os.path.join(self.folder(0), "address")) as f:
            address = f.read().split()[0]
        joiners = [self.join(address, "--parallel.stage", "0", *MOVING) for _ in JOINERS]
        self.until(lambda: self.moved() and self.lines(1)[-1]["peers"] > 1, p)
        reached = self.round(1)
        self.until(lambda: all(self.round(*who) > reached + 5 for who in [(0, "runs"), (1, "runs"), *self.moved()]), p)
        for q in (*joiners, p):
            q.send_signal(signal.SIGINT)
            self.ends(q, 130)
        self.each_stage_has_each_micro_batch_once()

    def each_stage_has_each_micro_batch_once(self):
        stages = [{line["round"]: line["state"] for line in self.lines(stage)} for stage in (0, 1)]
        for who in [(0, "runs"), (1, "runs"), *JOINERS]:
            served = []
            for line in self.lines(who[0], where=who[1]):
                in_stage = [stage for stage in (0, 1) if stages[stage].get(line["round"]) == line["state"]]
                if line["round"] in stages[0] and line["round"] in stages[1]:
                    self.assertEqual(len(in_stage), 1, line)  # the bits of the one stage or the other
                served += in_stage[:1]
                if "shares" in line:
                    self.assertEqual(sum(line["shares"]), MICRO_BATCHES, line)
            self.assertEqual(served, sorted(served))  # it does not go back
            self.assertEqual(served[-1], self.stage(who), who)


if __name__ == "__main__":
    unittest.main()
