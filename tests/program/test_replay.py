#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`causeway replay` as a person meets it.
usage: test_replay.py PATH_OF_CAUSEWAY [unittest options]"""
import os, re, subprocess, unittest

from support import PROGRAM, Program

STORM = "".join(f"0,add,n{i}\n" for i in range(12)) + "".join(
    f"{600000 * (i + 1)},remove,n{i}\n{600000 * (i + 1) + 300000},add,m{i}\n" for i in range(8))
POLICIES = ["checkpoint_restart", "redundant", "templates", "reroute", "morph", "neighbour_init", "proactive", "swarm"]


class Replay(Program):
    def replay(self, *args, trace=STORM):
        path = os.path.join(self.dir, "trace.csv")
        with open(path, "w") as f:
            f.write(trace)
        return subprocess.run([PROGRAM, "replay", "--trace", path, "--model", "gpt2", "--stages", "2", "--global-batch", "32",
                               *args], capture_output=True, text=True, errors="replace", timeout=120)

    def rates(self, r):
        self.assertEqual(r.returncode, 0, r.stderr)
        return {p: float(re.search("^" + p + r" +([0-9.]+)", r.stdout, re.M).group(1)) for p in POLICIES}

    def test_every_policy_has_a_line_and_going_on_beats_restarting(self):
        rates = self.rates(self.replay("--restart", "120"))
        for better in ["redundant", "templates", "reroute", "proactive", "swarm"]:
            self.assertGreater(rates[better], rates["checkpoint_restart"])
        self.assertEqual(rates, self.rates(self.replay("--restart", "120")))

    def test_a_dearer_restart_costs_those_who_restart_and_nobody_else(self):
        cheap, dear = self.rates(self.replay("--restart", "10")), self.rates(self.replay("--restart", "200"))
        self.assertGreater(cheap["checkpoint_restart"], dear["checkpoint_restart"])
        self.assertGreater(cheap["morph"], dear["morph"])
        self.assertEqual(cheap["reroute"], dear["reroute"])

    def test_counts_are_a_trace_too(self):
        r = self.replay("--in-seconds", trace="0,8\n600,6\n1200,8\n3600,8\n")
        self.assertIn("1.0 h", r.stdout, r.stderr)
        self.assertIn("2 losses at 1 moments", r.stdout)

    def test_wrong_input_is_refused_with_the_remedy(self):
        self.fails(self.replay(trace="0,add,a\n5,vanish,a\n"), "bad_text", "line 2", "add, remove or end")
        self.fails(self.replay("--model", "gpt9"), "invalid_argument", "gpt2-xl")
        self.fails(self.replay("--stages", "40"), "invalid_argument", "take 1 to 12")
        self.fails(self.replay("--global-batch", "33", "--micro-batch", "2"), "invalid_argument", "multiple")
        self.fails(self.replay(trace="0,300\n10,300\n"), "too_large", "256 instances")


if __name__ == "__main__":
    unittest.main()
