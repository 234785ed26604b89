#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Swarms: real processes that serve stages of the model, and are killed, stopped, started again and joined.
usage: test_swarm.py PATH_OF_CAUSEWAY [unittest options]"""
import os, signal, subprocess, unittest

from test_elastic import LONG, Elastic

SWARM = ["--parallel.policy", "swarm", "--model.layers", "4", "--train.batch", "8", "--train.evaluate_every", "20",
         "--train.checkpoint_every", "20"]
MICRO_BATCHES = 8
H = 4
LOCAL = ["--comm.policy", "diloco", "--comm.local_steps", str(H)]


class Swarms(Elastic):
    micro_batches = MICRO_BATCHES  # of a round

    def start_swarm(self, *args, env=None):
        return self.start(*SWARM, *args, env=env)

    def stage(self, peer, where="runs"):
        with open(os.path.join(self.folder(peer, where), "stage")) as f:
            return int(f.read())

    def address(self, peer):
        with open(os.path.join(self.folder(peer), "address")) as f:
            return f.read().split()[0]

    def is_in(self, peer, beyond, where="runs"):
        return self.round(peer, where) > beyond

    def stop(self, *processes):
        for p in processes:
            p.send_signal(signal.SIGINT)
            self.ends(p, 130)

    def all_lines(self, *wheres):
        """By stage: every line of every peer that served it."""
        found = {}
        for where in wheres:
            for peer in range(8):
                if os.path.exists(os.path.join(self.folder(peer, where), "stage")):
                    found.setdefault(self.stage(peer, where), []).append(self.lines(peer, where=where))
        return found

    def every_micro_batch_once(self, stages):
        for peers in stages.values():
            self.states_alike(*peers)  # of a stage: to the bit
            for lines in peers:
                took_part = [line for line in lines if "shares" in line]
                self.assertGreater(2 * len(took_part), len(lines))  # who is behind takes others' rounds over
                for line in took_part:
                    self.assertEqual(len(line["shares"]), line["peers"], line)
                    self.assertEqual(sum(line["shares"]), self.micro_batches, line)

    def no_round_is_missing(self, lines):
        rounds = [line["round"] for line in lines]
        self.assertEqual(rounds, list(range(rounds[0], rounds[-1] + 1)))

    def writes_text(self, *args):
        text = subprocess.run(self.command(*SWARM, *args, "--fault.policy", "quorum", "--prompt", "the", command="generate"),
                              capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertTrue(text.stdout.startswith("the"), text.stdout)


class Swarm(Swarms):
    def test_killed_peers_and_one_that_joins_change_nothing_of_what_is_learned(self):
        p = self.start_swarm("--peers", "6", *LONG)
        self.until(lambda: all(self.is_in(i, 5) for i in range(6)), p)
        for victim in (2, 3):  # one of each stage
            os.kill(self.pid(victim), signal.SIGKILL)
        self.until(lambda: all(self.lines(i)[-1]["peers"] == 2 for i in (0, 1)), p)
        joiner = self.join(self.address(0))
        self.until(lambda: self.round(0, "other") > 0, joiner)
        reached = self.round(0, "other")
        self.until(lambda: all(self.is_in(i, reached + 5) for i in (0, 1, 4, 5)) and self.is_in(0, reached + 5, "other"), p)
        self.stop(joiner, p)
        self.assertEqual(self.said(p, "err").count("was killed by signal 9"), 2)

        stages = self.all_lines("runs", "other")
        self.assertEqual(sorted(len(peers) for peers in stages.values()), [3, 4])
        self.every_micro_batch_once(stages)
        self.no_round_is_missing(self.lines(0))
        self.no_round_is_missing(self.lines(1))
        self.assertIn(3, {line["peers"] for line in self.lines(0, where="other")})
        self.assertTrue(any(line["shares"][k] > 0 for line in self.lines(0) for k in (1,)))  # work is shared
        self.journals_hold("runs")

        self.as_without_losses(self.lines(0)[:80])

    def as_without_losses(self, lines):
        """The same run with one peer a stage, and nobody killed: every step's loss, which tells of all steps before it."""
        q = self.spawn([*self.command("--fault.policy", "quorum", "--peers", "2", "--threads", "1", *SWARM, *LONG, where="calm")])
        last = lines[-1]["round"]
        self.until(lambda: self.round(0, "calm") >= last, q)
        self.stop(q)
        calm = {line["round"]: line for line in self.lines(0, where="calm")}
        for line in lines:
            self.assertAlmostEqual(line["loss"], calm[line["round"]]["loss"], delta=2e-4, msg=str(line))

    def test_without_its_last_peer_a_stage_is_waited_for_by_name(self):
        p = self.start_swarm("--peers", "3", *LONG)
        self.until(lambda: self.is_in(1, 5), p)
        os.kill(self.pid(1), signal.SIGKILL)  # the only peer of stage 1, in whatever it does
        self.until(lambda: "was killed by signal 9" in self.said(p, "err"), p)
        for peer in (0, 2):
            said = len(self.said(p, "err"))
            self.until(lambda: self.names_the_stage(p, peer, said), p)
        self.until(lambda: "no round for a while: waiting since" in self.said(p, "err"), p)  # the launcher, unasked
        still = self.round(0)
        again = self.spawn(self.command("--fault.policy", "quorum", "--threads", "1", "--peers", "3", *SWARM, *LONG,
                                        "--run.journal", "true"))
        self.until(lambda: all(self.is_in(i, still + 3) for i in range(3)), again)
        joiner = self.join(self.address(2), "--parallel.stage", "1")
        self.until(lambda: self.lines(1)[-1]["peers"] == 2, joiner)
        self.assertEqual(self.stage(0, "other"), 1)
        os.kill(self.pid(1), signal.SIGTERM)
        self.stop(joiner)
        again.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGINT)
        self.ends(again, 130)
        self.ends(p, 130)
        self.every_micro_batch_once(self.all_lines("runs", "other"))
        self.journals_hold("runs", "other")

    def names_the_stage(self, p, peer, said):
        os.kill(self.pid(peer), signal.SIGUSR1)
        return ("stage 1 is served by nobody: start one of its peers again, where its disk is, and the run goes on"
                in self.said(p, "err")[said:])

    def test_stopped_and_started_again_it_goes_on_where_it_was(self):
        reached = 0
        for _ in range(2):
            p = self.start_swarm("--peers", "4", *LONG)
            self.until(lambda: all(self.is_in(i, reached + 5) for i in range(4)), p)
            self.stop(p)
            reached = max(self.round(i) for i in range(4))
        self.no_round_is_missing(self.lines(0))
        self.every_micro_batch_once(self.all_lines("runs"))
        self.journals_hold()

    def test_trained_to_the_end_the_whole_model_writes_text(self):
        for extra in (["--parallel.router", "min_cost_flow", "--parallel.codec", "int8", "--model.family", "llama"],
                      ["--parallel.router", "random", "--parallel.stages", "3", "--parallel.codec", "subspace"]):
            with self.subTest(extra):
                p = self.start_swarm("--peers", "4", "--steps", "40", "--run.fresh", "true", *extra)
                self.ends(p)
                results = self.results()
                self.assertEqual(len(results), 4)
                self.assertEqual({r["step"] for r in results.values()}, {40})
                self.assertEqual(len({r["validation"] for r in results.values()}), 1)
                self.assertLess(results[0]["validation"], 4.5)  # uniform over bytes is 5.5
                self.writes_text("--peers", "4", *extra)

    def test_gradients_taken_ahead_leave_a_stage_alike(self):
        self.ends(self.start_swarm("--peers", "4", "--steps", "12", "--comm.policy", "distro", "--train.learning_rate", "0.003"))
        self.assertEqual([(r["step"], r["validation"]) for r in self.results().values()], 4 * [(12, self.results()[0]["validation"])])
        for peers in self.all_lines("runs").values():
            self.states_alike(*peers)

    def test_what_does_not_go_together_is_refused(self):
        elastic = ["--fault.policy", "quorum"]
        for args, name, remedy in [
                ([], "fault.policy", "--fault.policy quorum"),
                ([*elastic, "--comm.codec", "int8", "--model.tie", "true"], "model.tie", "auto or false"),
                ([*elastic, "--train.optimizer", "muon"], "train.optimizer", "adamw"),
                ([*elastic, "--parallel.codec", "delta_int4"], "parallel.codec", "int8"),
                ([*elastic, *LOCAL, "--parallel.codec", "subspace"], "parallel.codec", "every_step"),
                ([*elastic, "--parallel.router", "prayer"], "parallel.router", "least_load"),
                ([*elastic, "--parallel.router", "planned"], "parallel.paths", "--skip"),
                ([*elastic, "--parallel.paths", "* *"], "parallel.paths", "planned"),
                ([*elastic, "--parallel.router", "planned", "--parallel.paths", "* -"], "parallel.paths", "last stage"),
                ([*elastic, "--parallel.router", "planned", "--parallel.paths", "0 x"], "parallel.paths", "'x'"),
                ([*elastic, *LOCAL, "--parallel.router", "planned", "--parallel.paths", "* *"], "parallel.router", "no stage out"),
                ([*elastic, "--parallel.schedule", "gpipe"], "parallel.policy", "leave them out"),
                ([*elastic, "--parallel.stages", "5"], "parallel.stages", "model.layers"),
                ([*elastic, "--parallel.stages", "4", "--peers", "3"], "net.peers", "--peers 12"),
                ([*elastic, "--parallel.stage", "2"], "parallel.stage", "0 to 1"),
                ([*elastic, "--fault.min_peers", "3"], "fault.min_peers", "1 to 2"),
                ([*elastic, *LOCAL, "--steps", "42"], "train.steps", "use 40 or 44"),
                ([*elastic, *LOCAL, "--comm.local_steps", "200000"], "comm.local_steps", "use fewer"),
                ([*elastic, "--comm.policy", "dion"], "comm.policy", "distro"),
                ([*elastic, "--comm.policy", "muloco"], "train.optimizer", "adamw"),
                ([*elastic, "--run.refound", "true"], "run.refound", "start the peers")]:
            with self.subTest(args):
                self.fails(self.run_it("--peers", "4", *SWARM, *args), "invalid_argument", name, remedy)
        simulated = subprocess.run(self.command(*elastic, *SWARM, "--peers", "4", command="simulate"), capture_output=True, text=True)
        self.fails(simulated, "unsupported", "parallel.policy")


class LocalSteps(Swarms):
    """The peers of a stage step alone, H times, and then exchange what they moved."""
    micro_batches = H * MICRO_BATCHES

    def rounds_are_whole(self, *wheres):
        stages = self.all_lines(*wheres)
        self.every_micro_batch_once(stages)
        for peers in stages.values():  # who is behind may pass a round, but not all of a stage
            made = {(line["round"], line["step"]) for lines in peers for line in lines}
            self.assertEqual(made, {(k, H * k) for k in range(1, len(made) + 1)})

    def coordinator(self):
        """The peer of stage 0 that was the last to say so."""
        said = []
        for peer in (0, 2, 4):
            with open(os.path.join(self.folder(peer), "log.txt"), errors="replace") as f:
                said += [(float(line.split()[0]), peer) for line in f if "coordinating the swarm" in line]
        return max(said)[1]

    def test_alone_in_its_stage_a_peer_learns_what_it_does_with_a_step_of_all(self):
        whole = ["--peers", "2", "--steps", "40", "--train.clip", "0",  # a peer clips by the norm of its own stage
                 "--model.family", "llama"]  # never with a tied table
        self.ends(self.start_swarm(*whole))
        together = {line["step"]: line["loss"] for line in self.lines(0)}
        self.ends(self.start_swarm(*whole, "--run.fresh", "true", "--comm.policy", "local_sgd", "--comm.local_steps", str(H)))
        self.assertEqual(len(self.lines(0)), 40 // H)
        for line in self.lines(0):
            self.assertAlmostEqual(line["loss"], together[line["step"]], delta=1e-4, msg=str(line))

    def test_killed_peers_come_back_one_joins_and_every_micro_batch_counts_once(self):
        p = self.start_swarm("--peers", "6", "--restart", "true", *LONG, *LOCAL)
        self.until(lambda: all(self.is_in(i, 3) for i in range(6)), p)
        before = {victim: (self.pid(victim), self.round(victim)) for victim in (self.coordinator(), 3)}  # one of each stage
        for pid, _ in before.values():
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: all(self.pid(i) != pid and self.is_in(i, last + 3) for i, (pid, last) in before.items()), p)
        joiner = self.join(self.address(0))
        self.until(lambda: self.is_in(0, 3, "other"), joiner)
        reached = self.round(0, "other")
        self.until(lambda: all(self.is_in(i, reached + 3) for i in range(6)), p)
        self.stop(joiner, p)
        self.assertEqual(self.said(p, "err").count("was killed by signal 9; starting it again"), 2)
        self.rounds_are_whole("runs", "other")
        self.assertIn(4, {line["peers"] for line in self.lines(0, where="other")})
        self.journals_hold("runs", "other")

    def test_stopped_and_started_again_it_goes_on_where_the_last_exchange_ended(self):
        reached = 0
        for _ in range(2):
            p = self.start_swarm("--peers", "4", *LONG, *LOCAL)
            self.until(lambda: all(self.is_in(i, reached + 3) for i in range(4)), p)
            self.stop(p)
            reached = max(self.round(i) for i in range(4))
        self.rounds_are_whole("runs")
        for peer in range(4):  # the moments of its inner optimizer, which are its own
            own = os.path.join(self.folder(peer), f"stage-{self.stage(peer)}")
            self.assertTrue([f for f in os.listdir(own) if f.startswith("step-")], os.listdir(own))
        self.writes_text("--peers", "4", *LOCAL)
        self.journals_hold()

    def test_with_every_policy_that_moves_all_at_once(self):
        for policy in (["open_diloco"], ["intellect1"], ["fedavg"], ["photon"], ["sparse_loco"], ["local_sgd"],
                       ["diloco", "--comm.codec", "int8"], ["muloco", "--train.optimizer", "adamw"], ["des_loc"]):
            with self.subTest(policy):
                self.ends(self.start_swarm("--peers", "4", "--steps", "40", *LOCAL, "--run.fresh", "true", "--comm.policy", *policy,
                                           "--train.learning_rate", "0.003"))
                results = self.results()
                self.assertEqual({r["round"] for r in results.values()}, {40 // H})
                self.assertEqual(len({r["validation"] for r in results.values()}), 1)
                self.assertLess(results[0]["validation"], 5)  # uniform over bytes is 5.5
                self.rounds_are_whole("runs")

    def test_with_every_policy_that_has_more_than_a_row_an_old_one_groups_or_asks_all_stages(self):
        for policy in (["edit"], ["streaming_diloco", "--comm.overlap_steps", "3"], ["eager_diloco", "--comm.outer_momentum", "0.3"], ["cocktail_sgd"], ["sparta_diloco", "--comm.share", "0.5"],
                       ["moshpit_sgd", "--comm.group_size", "2"], ["noloco"], ["bacombo"], ["co_learning"], ["cocodc", "--comm.overlap_steps", "3"], ["gaia_asp"], ["async_local_sgd"], ["decoupled_diloco", "--comm.fragments", "2"],
                       ["dlion"]):
            with self.subTest(policy):
                self.trains_to_the_end(policy)

    def test_with_regions_whose_records_come_in_the_middle_of_a_run(self):
        self.trains_to_the_end(["halos", "--comm.group_size", "1", "--comm.local_steps", "1"], rate="0.02")

    def trains_to_the_end(self, policy, rate="0.003"):
        self.ends(self.start_swarm("--peers", "4", "--steps", "40", *LOCAL, "--run.fresh", "true", "--comm.policy", *policy,
                                   "--train.learning_rate", rate))
        results = self.results()
        self.assertEqual({r["step"] for r in results.values()}, {40})
        self.assertEqual(len({r["round"] for r in results.values()}), 1)
        self.assertEqual(len({r["validation"] for r in results.values()}), 1)
        self.assertLess(results[0]["validation"], 5)  # uniform over bytes is 5.5
        for peers in self.all_lines("runs").values():
            self.states_alike(*peers)
        self.writes_text("--peers", "4", *LOCAL, "--comm.policy", *policy)

    def goes_on_whoever_is_killed(self, *policy):
        p = self.start_swarm("--peers", "4", "--restart", "true", *LONG, *LOCAL, "--comm.policy", *policy)
        self.until(lambda: all(self.is_in(i, 3) for i in range(4)), p)
        before = {victim: (self.pid(victim), self.round(victim)) for victim in (0, 3)}  # one of each stage
        for pid, _ in before.values():
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: all(self.pid(i) != pid and self.is_in(i, last + 5) for i, (pid, last) in before.items()), p)
        self.stop(p)
        for peers in self.all_lines("runs").values():
            self.states_alike(*peers)
        self.journals_hold()

    def test_rows_that_are_set_aside_go_on_whoever_is_killed(self):
        self.goes_on_whoever_is_killed("streaming_diloco", "--comm.overlap_steps", "3")

    def test_peers_in_groups_go_on_whoever_is_killed(self):
        self.goes_on_whoever_is_killed("noloco")

    def test_rows_of_the_round_before_go_on_whoever_is_killed(self):
        self.goes_on_whoever_is_killed("cocktail_sgd")

    def test_trained_to_the_end_all_hold_the_same_and_the_whole_model_writes_text(self):
        p = self.start_swarm("--peers", "4", "--steps", "40", *LOCAL)
        self.ends(p)
        results = self.results()
        self.assertEqual({r["step"] for r in results.values()}, {40})
        self.assertEqual({r["round"] for r in results.values()}, {40 // H})
        self.assertEqual(len({r["validation"] for r in results.values()}), 1)
        self.assertLess(results[0]["validation"], 4.5)  # uniform over bytes is 5.5
        validated = [line["step"] for line in self.lines(0) if line["validation"] > 0]
        self.assertEqual(validated, [20, 40])
        self.rounds_are_whole("runs")
        self.writes_text("--peers", "4", *LOCAL)


if __name__ == "__main__":
    unittest.main()
