#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/kill_storm.py understands of its arguments; the storms themselves take too long for a test.
usage: test_kill_storm.py [unittest options]"""
import collections
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import kill_storm


class Arguments(unittest.TestCase):
    def test_settings_may_follow_in_the_order_of_its_page_and_help(self):
        page = (ROOT / "docs/how_to/kill_storm.md").read_text(encoding="utf-8")
        shown = re.findall(r"^tools/kill_storm\.py (.*)$", page, re.M)
        self.assertGreaterEqual(len(shown), 2)
        for line in shown:
            for settings in [[], ["--comm.local_steps", "5", "--model.layers=4"]]:
                with self.subTest(line, settings=settings):
                    args = kill_storm.read_arguments(line.split() + (["--", *settings] if settings else []))
                    self.assertEqual(args.program, "build/release/bin/causeway")
                    self.assertEqual(args.settings, settings)

    def test_settings_right_behind_the_program(self):
        named = kill_storm.read_arguments(["causeway", "--policy", "sparta", "--", "--steps", "5"])
        self.assertEqual(named.settings, ["--comm.policy", "sparta", "--steps", "5"])
        args = kill_storm.read_arguments(["causeway", "--", "--steps", "5"])
        self.assertEqual((args.program, args.settings, args.kills, args.steps), ("causeway", ["--steps", "5"], 200, None))


class Journals(unittest.TestCase):
    def test_the_founding_has_no_number(self):
        with tempfile.TemporaryDirectory() as box:
            run = kill_storm.Run("causeway", box, 1, [])
            Path(run.path(0)).mkdir(parents=True)
            Path(run.path(0, "journal.txt")).write_text("5 77 commit hash=9 chain=3 members=77\n9 77 commit round=1 hash=8 parent=3\n9 77 comm")
            self.assertEqual(kill_storm.Journals(run).committed(), {0, 1})

    def test_what_a_peer_lost_that_had_just_been_started_is_not_a_survivors(self):
        trained = lambda round, first: {"kind": "trained", "id": "7", "round": str(round), "ranges": f"{first}:40"}
        commit = lambda round, who="": {"kind": "commit", "id": "7", "round": str(round), "contributions": who}
        life = [{"kind": "boot"}, commit(2, "7:40"), trained(3, 0), commit(3), trained(4, 80)]
        self.assertEqual(kill_storm.Journals.lost_in(life, collections.Counter()), [0, 40])
        life += [commit(4, "7:40"), trained(5, 120), commit(5), trained(6, 160)]
        self.assertEqual(kill_storm.Journals.lost_in(life, collections.Counter({("7", 4): 40})), [40, 40])


if __name__ == "__main__":
    unittest.main()
