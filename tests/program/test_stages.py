#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whose peers hold stages of the model, and come and go: real processes that are killed, stopped, started again.
usage: test_stages.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, os, re, shutil, signal, subprocess, unittest

from support import PROGRAM, until
from test_elastic import LONG, Elastic

STAGES = ["--parallel.policy", "pipeline", "--parallel.stages", "2", "--comm.policy", "every_step", "--model.layers", "4",
          "--train.micro_batches", "4", "--train.evaluate_every", "20", "--train.checkpoint_every", "50"]
ALONE = ["--comm.policy", "diloco", "--comm.local_steps", "5", "--train.checkpoint_every", "10"]


class Stages(Elastic):
    def start_stages(self, *args, env=None):
        return self.start("--peers", "4", *STAGES, *args, env=env)

    def losses(self):
        """What all peers say of each step."""
        found = {}
        for peer in range(5):
            for line in self.lines(peer):
                if line["validation"] > 0:
                    found.setdefault(line["round"], set()).add(round(line["validation"], 3))
        return found

    def logs(self):
        text = ""
        for path in glob.glob(self.folder("*") + "/log.txt"):
            with open(path) as f:
                text += f.read()
        return text

    def end(self, *args, env=None):
        p = self.start_stages("--steps", "60", *args, env=env)
        self.ends(p)
        return self.results()

    def test_peers_train_to_the_end_and_the_whole_model_writes_text(self):
        results = self.end()
        self.all_alike(list(results.values()), 4)
        self.assertLess(results[0]["validation"], 4.0)  # uniform over bytes is 5.5
        self.assertEqual({r["step"] for r in results.values()}, {60})
        whole = self.run_it("--peers", "1", "--model.layers", "4", "--comm.policy", "every_step", "--train.micro_batches", "4",
                            "--train.evaluate_every", "20", "--steps", "60", where="whole")  # the same model, tied table and all
        said = re.search(r"validation loss ([0-9.]+)", whole.stdout)
        self.assertIsNotNone(said, whole.stderr)
        self.assertAlmostEqual(results[0]["validation"], float(said.group(1)), delta=1e-3)
        text = subprocess.run(self.command("--peers", "4", *STAGES, "--fault.policy", "quorum", "--prompt", "the",
                                           command="generate"), capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertTrue(text.stdout.startswith("the"), text.stdout)

    def test_stages_that_swap_train_by_their_preset_and_the_whole_model_writes_text(self):
        ring = ["--peers", "5", "--preset", "checkfree_plus", "--model.layers", "4", "--train.micro_batches", "4",
                "--train.evaluate_every", "20", "--train.checkpoint_every", "50"]
        p = self.start(*ring, "--steps", "60")
        self.ends(p)
        results = self.results()
        self.all_alike(list(results.values()), 5)
        self.assertLess(results[0]["validation"], 4.0)  # uniform over bytes is 5.5
        text = subprocess.run(self.command(*ring, "--prompt", "the", command="generate"), capture_output=True, text=True,
                              errors="replace", timeout=60)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertTrue(text.stdout.startswith("the"), text.stdout)

    def test_too_few_peers_are_told_before_the_run_and_within_it(self):
        few = self.run_it("--peers", "4", "--preset", "checkfree_plus", "--model.layers", "4")
        self.fails(few, "invalid_argument", "4 cannot hold the model, which takes 5", "--peers 5")
        few = self.run_it("--peers", "2", "--preset", "checkfree", "--model.layers", "4")
        self.fails(few, "invalid_argument", "--peers 3")
        run = self.start("--peers", "4", *STAGES, "--parallel.stages", "4", "--steps", "100000",
                         env=dict(os.environ, CAUSEWAY_FAILPOINT="committed:5@2"))
        until(lambda: "no round for a while" in self.said(run, "err"), run)
        self.assertRegex(self.said(run, "err"), "step [0-9]+ waits: layout: 3 peers cannot hold the model, it takes 4")
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(60), 130)

    def test_peers_that_have_nothing_to_compute_are_named_and_the_most_that_one_sent_is_said(self):
        p = self.start_stages("--steps", "20", "--train.micro_batches", "1")
        self.ends(p)
        said = self.said(p, "out")
        self.assertIn("2 of 4 peers are only spare: a step has 1 micro-batch for 2 pipelines; --train.micro_batches 2 gives", said)
        most = max(r["bytes_sent"] for r in self.results().values())
        self.assertGreater(most, 100000)  # boundaries of 20 steps
        self.assertRegex(said, rf"a peer sent up to {most / 1e6:.1f} MB" if most >= 1e6 else rf"a peer sent up to {most / 1e3:.1f} kB")

    def test_dedloc_gathers_in_stages_and_a_killed_peer_changes_nothing(self):
        gathers = ["--peers", "4", *STAGES, "--preset", "dedloc", "--comm.policy", "dedloc", "--comm.batch_samples", "16", "--train.batch", "4",
                   "--train.optimizer", "adamw", "--train.learning_rate", "0.002", "--steps", "160"]
        ends = []
        killed = dict(os.environ, CAUSEWAY_FAILPOINT="committed:23@2")
        for env, recovery in [(None, "regroup"), (killed, "regroup"), (killed, "redundant_forward"), (killed, "templates")]:
            self.ends(self.start(*gathers, "--parallel.recovery", recovery, "--run.fresh", "true", "--restart", "true", env=env))
            ends.append(max(r["validation"] for r in self.results().values()))
            self.journals_hold()
        self.assertLess(ends[0], 4.5)  # uniform over bytes is 5.5
        for end in ends[1:]:
            self.assertAlmostEqual(ends[0], end, delta=1e-3)

    def test_killed_peers_change_nothing_of_what_is_learned(self):
        calm = self.end()[0]["validation"]
        for recovery in ["redundant", "redundant_forward", "templates", "reroute"]:
            with self.subTest(recovery):
                p = self.start_stages("--steps", "60", "--run.fresh", "true", "--restart", "true", "--parallel.recovery", recovery,
                                      env=dict(os.environ, CAUSEWAY_FAILPOINT="committed:23@2"))
                self.ends(p)
                results = self.results()  # the killed one may come back when the others have ended
                self.assertGreaterEqual(len(results), 3)
                self.assertIn("was killed by signal 9; starting it again", self.said(p, "err"))
                self.journals_hold()
                for r in results.values():
                    if r["validation"] > 0:  # who comes back in the last step may have missed it
                        self.assertAlmostEqual(r["validation"], calm, delta=1e-3)
                for step, said in self.losses().items():
                    self.assertLessEqual(max(said) - min(said), 0.0015, step)

    def test_a_step_goes_on_when_a_peer_is_lost_in_it_with_the_bits_of_an_undisturbed_one(self):
        one_pipeline = ["--peers", "3", *STAGES, "--parallel.stages", "3", "--steps", "30", "--train.clip", "0",
                        "--parallel.recovery", "redundant_forward"]
        self.ends(self.start(*one_pipeline))
        calm = self.results()[0]["validation"]
        p = self.start(*one_pipeline, "--run.fresh", "true", "--restart", "true",
                       env=dict(os.environ, CAUSEWAY_FAILPOINT="mid_step:12@2"))
        self.ends(p)
        self.assertIn("was killed by signal 9; starting it again", self.said(p, "err"))
        self.assertIn("went on without a peer that was lost", self.logs())
        self.assertEqual({r["validation"] for r in self.results().values() if r["validation"] > 0}, {calm})
        self.journals_hold()

    def test_stopped_and_started_again_it_goes_on_where_it_was(self):
        reached = 0
        for _ in range(2):
            p = self.start_stages(*LONG)
            self.until(lambda: all(self.round(i) > reached + 5 for i in range(4)), p)
            p.send_signal(signal.SIGINT)
            self.ends(p, 130)
            before, reached = reached, max(self.round(i) for i in range(4))
            if before:
                self.assertIn(f"going on from step {before}, which is saved", self.logs())
        rounds = [line["round"] for line in self.lines(0)]
        self.assertEqual(rounds, sorted(set(rounds)))  # nothing was done twice
        self.journals_hold()

    def test_a_runs_folder_says_where_its_stages_are_kept(self):
        store = os.path.join(self.dir, "store")
        command = [PROGRAM, "generate", "--run.directory", os.path.join(self.dir, "runs"), "--prompt", "the sea"]
        generate = lambda *more, cwd=None: subprocess.run([*command, *more], capture_output=True, text=True, errors="replace", timeout=60, cwd=cwd)
        p = self.start_stages(*LONG, "--parallel.store", os.path.relpath(store))
        self.until(lambda: all(self.round(i) > 5 for i in range(4)), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        copies = lambda: {os.path.relpath(path, store) for path in glob.glob(store + "/block-*/*")}
        kept, reached = copies(), max(self.round(i) for i in range(4))
        self.assertGreater(len(kept), 0)
        for cwd in [None, self.dir]:  # also from another folder than the one that the path was relative to
            r = generate(cwd=cwd)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertTrue(r.stdout.startswith("the sea"))
        r = generate("--parallel.store", os.path.join(self.dir, "elsewhere"))
        self.assertEqual(r.returncode, 1)
        self.assertIn("elsewhere", r.stderr)
        p = self.start_stages(*LONG)
        self.until(lambda: all(self.round(i) > reached + 3 for i in range(4)), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        self.assertNotEqual(copies(), kept)  # and there the next start goes on
        self.assertFalse(os.path.exists(os.path.join(self.dir, "runs", "causeway", "blocks")))

    def test_folders_on_two_machines_go_on_from_what_both_have_saved(self):
        def start():
            p = self.start("--peers", "2", *STAGES, *LONG)
            self.until(lambda: os.path.exists(os.path.join(self.folder(0), "address")), p)
            return p

        def both_join():
            with open(os.path.join(self.folder(0), "address")) as f:
                address = f.read().split()[0]
            return [self.join(address) for _ in range(2)]  # their folder is another one

        def stop(*processes):
            for p in processes:
                p.send_signal(signal.SIGINT)
            for p in processes:
                self.ends(p, 130)

        p = start()
        self.until(lambda: self.round(0) > 1, p)
        joined = both_join()
        self.until(lambda: self.lines(0)[-1]["peers"] == 4, p)
        before = self.round(0)
        self.until(lambda: self.round(0) > before + 55, p)  # all save every 50
        stop(*joined, p)
        near, far = [os.path.join(self.dir, where, "causeway", "blocks") for where in ["runs", "other"]]
        for folder in [near, far]:
            self.assertGreater(len(glob.glob(folder + "/block-*/*")), 0, folder)
        for block in os.listdir(far):  # which the peers there happened to have; one machine alone has no longer all
            shutil.rmtree(os.path.join(near, block), ignore_errors=True)
        reached = self.round(0)
        p = start()
        joined = both_join()
        self.until(lambda: self.round(0) > reached + 55, p)  # beyond what was there, wherever it went back to
        stop(*joined, p)

    def test_one_leaves_one_joins(self):
        p = self.start_stages(*LONG)
        self.until(lambda: all(self.round(i) > 5 for i in range(4)), p)
        os.kill(self.pid(3), signal.SIGTERM)
        self.until(lambda: self.lines(0)[-1]["peers"] == 3, p)
        with open(os.path.join(self.folder(0), "address")) as f:
            joiner = self.join(f.read().split()[0])
        self.until(lambda: self.lines(0)[-1]["peers"] == 4, joiner)
        before = self.round(0)
        self.until(lambda: self.round(0) > before + 5, p)
        for q in [joiner, p]:
            q.send_signal(signal.SIGINT)
            self.ends(q, 130)
        self.assertNotIn("going back", self.logs())

    def test_who_is_told_to_go_hands_over_the_only_copy_of_its_stage(self):
        p = self.start_stages(*LONG, "--parallel.stages", "3", "--fault.notice", "5")
        self.until(lambda: all(self.round(i) > 5 for i in range(4)), p)
        os.kill(self.pid(3), signal.SIGTERM)
        self.until(lambda: self.lines(0)[-1]["peers"] == 3, p)
        os.kill(self.pid(2), signal.SIGTERM)  # the others cannot do without it
        self.until(lambda: "cannot hold the model" in self.logs(), p)
        self.assertNotIn("is saved", self.logs())  # nothing was lost before
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)

    def test_founded_anew_by_two_of_four_it_goes_on_from_the_copies(self):
        p = self.start_stages(*LONG)
        self.until(lambda: all(self.round(i) > 5 for i in range(4)), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        for gone in (2, 3):
            shutil.rmtree(self.folder(gone))
        reached = max(self.round(i) for i in range(2))
        p = self.start("--peers", "2", *STAGES, *LONG, "--run.refound", "true")
        self.until(lambda: self.round(0) > reached + 5, p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)

    def alone_learn_whoever_is_killed(self, *by, fails="committed:6@2"):
        p = self.start_stages("--steps", "60", *ALONE, *by, "--restart", "true",
                              env=dict(os.environ, CAUSEWAY_FAILPOINT=fails))
        self.ends(p)
        self.assertIn("was killed by signal 9; starting it again", self.said(p, "err"))
        results = self.results()  # the killed one may come back when the others have ended
        self.assertGreaterEqual(len(results), 3)
        said = [r["validation"] for r in results.values() if r["validation"] > 0]  # who rests in the last round has none
        self.assertGreaterEqual(len(said), 2)
        for validation in said:
            self.assertLess(validation, 4.0)  # uniform over bytes is 5.5
            self.assertAlmostEqual(validation, said[0], delta=1e-3)
        self.journals_hold()
        text = subprocess.run(self.command("--peers", "4", *STAGES, *ALONE, *by, "--fault.policy", "quorum", "--prompt", "the",
                                           command="generate"), capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertTrue(text.stdout.startswith("the"), text.stdout)

    def test_pipelines_that_step_alone_learn_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed()

    def test_pipelines_exchange_fragments_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "streaming_diloco", "--comm.local_steps", "6")

    def test_pipelines_take_results_a_round_late_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "eager_diloco", "--comm.local_steps", "6", "--comm.outer_momentum", "0.3")

    def test_pipelines_meet_in_pairs_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "noloco", "--comm.local_steps", "6")

    def test_pipelines_meet_fragment_by_fragment_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "bacombo", "--comm.local_steps", "6")

    def test_pipelines_exchange_by_two_policies_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "sparta_diloco", "--comm.local_steps", "6")

    def test_pipelines_with_a_hub_for_each_stage_learn_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "async_local_sgd", fails="committed:2@2")  # of records

    def test_pipelines_that_never_wait_learn_with_hubs_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--parallel.policy", "async_pipeline", "--comm.policy", "async_local_sgd", fails="committed:2@2")

    def test_pipelines_in_two_regions_learn_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "halos", "--comm.group_size", "1", "--comm.local_steps", "1", "--train.learning_rate", "0.02", fails="committed:1@2")

    def test_pipelines_have_parts_by_speed_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--comm.policy", "dlion", "--comm.local_steps", "6")

    def test_pipelines_meet_by_the_clock_whoever_is_killed(self):
        clock = ["--comm.policy", "a_edit", "--comm.seconds", "0.001", "--comm.fewest_steps", "8"]
        for by in [clock, ["--parallel.policy", "async_pipeline", *clock]]:
            with self.subTest(by):
                self.alone_learn_whoever_is_killed(*by, "--run.fresh", "true", fails="committed:2@2")

    def test_pipelines_that_step_alone_keep_the_stage_of_who_is_killed(self):
        for by in [["--parallel.recovery", "redundant"], ["--parallel.recovery", "redundant_forward", "--comm.policy", "local_sgd"],
                   ["--parallel.recovery", "templates", "--comm.policy", "edit"],
                   ["--parallel.recovery", "redundant", "--comm.policy", "streaming_diloco", "--comm.local_steps", "6"],
                   ["--parallel.recovery", "redundant_forward", "--comm.policy", "dlion", "--comm.local_steps", "6"],
                   ["--parallel.recovery", "templates", "--comm.policy", "dlion", "--comm.local_steps", "6"]]:
            with self.subTest(by):
                self.alone_learn_whoever_is_killed(*by, "--run.fresh", "true")

    def test_pipelines_that_never_wait_within_a_round_learn_whoever_is_killed(self):
        self.alone_learn_whoever_is_killed("--parallel.policy", "async_pipeline", "--parallel.ahead", "1")

    def test_pipelines_that_step_alone_go_on_when_all_were_stopped(self):
        self.alone_go_on_when_all_were_stopped()

    def test_pipelines_that_never_wait_within_a_round_go_on_when_all_were_stopped(self):
        self.alone_go_on_when_all_were_stopped("--parallel.policy", "async_pipeline")

    def alone_go_on_when_all_were_stopped(self, *by):
        stops = self.start_stages(*LONG, *ALONE, *by)
        self.until(lambda: all(self.round(i) > 3 for i in range(4)), stops)
        stops.send_signal(signal.SIGINT)
        self.ends(stops, 130)
        reached = max(self.round(i) for i in range(4))
        again = self.start_stages(*LONG, *ALONE, *by)
        self.until(lambda: all(self.round(i) > reached + 1 for i in range(4)), again)
        again.send_signal(signal.SIGINT)
        self.ends(again, 130)

    def test_gradients_travel_by_a_codec_whoever_is_killed(self):
        for by in [["--comm.codec", "int8", "--parallel.codec", "subspace"], ["--comm.policy", "power_sgd"], ["--comm.policy", "netstorm"],
                   ["--comm.codec", "int8", "--parallel.recovery", "reroute"], ["--comm.policy", "distro", "--train.learning_rate", "0.01"],
                   ["--comm.codec", "int8", "--parallel.recovery", "redundant"], ["--comm.policy", "power_sgd", "--parallel.recovery", "redundant_forward"],
                   ["--comm.policy", "netstorm", "--parallel.recovery", "templates"],
                   ["--comm.policy", "distro", "--train.learning_rate", "0.01", "--parallel.recovery", "templates"]]:
            with self.subTest(by):
                p = self.start_stages("--steps", "60", *by, "--run.fresh", "true", "--restart", "true",
                                      env=dict(os.environ, CAUSEWAY_FAILPOINT="committed:23@2"))
                self.ends(p)
                self.assertIn("was killed by signal 9; starting it again", self.said(p, "err"))
                results = self.results()  # the killed one may come back when the others have ended
                self.assertGreaterEqual(len(results), 3)
                said = {round(r["validation"], 3) for r in results.values() if r["validation"] > 0}
                self.assertLess(max(said), 4.0)  # uniform over bytes is 5.5
                self.assertLessEqual(max(said) - min(said), 0.0015)
                self.journals_hold()

    def test_what_does_not_go_together_is_refused(self):
        for args, name in [(["--comm.policy", "dion"], "comm.policy"), (["--comm.policy", "demo", "--train.optimizer", "adamw"], "train.optimizer"),
                           ([*ALONE, "--comm.policy", "gaia_asp", "--parallel.recovery", "redundant"], "redundant does not go with gaia_asp in pipeline: rule C8"),
                           ([*ALONE, "--comm.policy", "gaia_asp", "--model.tie", "true"], "model.tie"),
                           ([*ALONE, "--parallel.recovery", "reroute"], "reroute does not go with diloco in pipeline: rule C8"),
                           ([*ALONE, "--parallel.policy", "async_pipeline", "--parallel.recovery", "templates"], "in async_pipeline: rule C8"),
                           (["--comm.policy", "distro", "--parallel.recovery", "redundant_forward"], "redundant_forward does not go with distro in pipeline: rule C8"),
                           (["--parallel.policy", "async_pipeline"], "comm.policy"),
                           (["--comm.policy", "halos", "--net.region", "0"], "net.region"), ([*ALONE, "--steps", "61"], "train.steps"), (["--train.optimizer", "muon"], "train.optimizer"),
                           (["--parallel.schedule", "interleaved"], "parallel.schedule"),
                           (["--parallel.codec", "delta_int4"], "parallel.codec"), (["--parallel.stages", "5"], "parallel.stages"),
                           (["--parallel.recovery", "redundant_forward", "--parallel.schedule", "gpipe"], "parallel.schedule"),
                           (["--parallel.recovery", "swapped_neighbours"], "parallel.stages"),  # of two stages
                           (["--parallel.recovery", "swapped_neighbours", "--parallel.schedule", "gpipe"], "parallel.schedule"),
                           (["--parallel.recovery", "prayer"], "parallel.recovery")]:
            with self.subTest(name):
                r = self.run_it("--fault.policy", "quorum", "--peers", "4", *STAGES, *args)
                self.fails(r, "invalid_argument", name)


if __name__ == "__main__":
    unittest.main()
