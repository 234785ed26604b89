#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program `causeway` as a person meets it: wrong input, interrupted runs, peers that do not fit.
usage: test_program.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, json, os, re, shutil, signal, socket, subprocess, tempfile, time, unittest

from support import PROGRAM, Program


class Training(Program):
    def test_four_peers_train_and_leave_everything_behind(self):
        r = self.run_it("--peers", "4", "--steps", "40")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("validation loss", r.stdout)
        self.assertRegex(r.stdout, r"memory of this peer: about [0-9.]+ [kMG]B")
        folder = os.path.join(self.dir, "runs", "causeway")
        for name in ["peer-0/metrics.jsonl", "loss.svg", "report.html", "sample.txt", "tokens.bin"]:
            self.assertGreater(os.path.getsize(os.path.join(folder, name)), 0, name)
        self.assertEqual(len(glob.glob(folder + "/peer-*")), 4)
        with open(folder + "/peer-0/metrics.jsonl") as metrics:
            final = [float(v) for v in re.findall(r'"validation_loss":([0-9.]+)', metrics.read())]
        self.assertLess(final[-1], 3.0)  # uniform over bytes is 5.5
        g = subprocess.run(self.command("--prompt", "the sea", command="generate"), capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(g.returncode, 0, g.stderr)
        self.assertTrue(g.stdout.startswith("the sea"))

    def test_the_same_command_gives_the_same_bits(self):
        for where in ["a", "b"]:
            self.assertEqual(self.run_it("--peers", "3", "--steps", "20", where=where).returncode, 0)
        for peer in range(3):
            self.assertEqual(self.checkpoint("a", peer, 20), self.checkpoint("b", peer, 20))

    def interrupted(self, *args, rounds, where="cut"):
        """Runs, interrupts after some more validations were written, and returns the exit status."""
        p = subprocess.Popen(self.command(*args, where=where), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", start_new_session=True)
        for line in p.stdout:
            if line.startswith("step") and (rounds := rounds - 1) < 0:
                p.send_signal(signal.SIGINT)
                break
        out, err = p.communicate(timeout=60)
        return p.returncode, out, err

    def test_interrupted_and_resumed_equals_not_interrupted(self):
        for policy in ["diloco", "every_step"]:
            with self.subTest(policy):
                args = ["--peers", "3", "--steps", "400", "--comm.policy", policy, "--train.evaluate_every", "10", "--run.fresh",
                        "true"]
                self.assertEqual(self.run_it(*args, where="whole").returncode, 0)
                stops = 0
                for attempt in range(3):
                    code, out, err = self.interrupted(*(args if attempt == 0 else args[:-2]), rounds=2 + attempt)
                    self.assertIn(code, [0, 130], err)
                    stops += code == 130
                self.assertGreaterEqual(stops, 1)
                self.assertEqual(self.run_it(*args, where="cut").returncode, 0)
                for peer in range(3):
                    self.assertEqual(self.checkpoint("whole", peer, 400), self.checkpoint("cut", peer, 400))

    def losses(self, where):
        with open(os.path.join(self.dir, where, "causeway", "peer-0", "metrics.jsonl")) as metrics:
            return [float(v) for v in re.findall(r'"validation_loss":([0-9.]+)', metrics.read())]

    def test_presets_train_and_an_interrupted_run_ends_with_the_same_bits(self):
        for policy in ["streaming_diloco", "sparse_loco", "noloco"]:
            with self.subTest(policy):
                args = ["--peers", "4", "--steps", "200", "--comm.policy", policy, "--train.evaluate_every", "10",
                        "--train.checkpoint_every", "20"]
                if policy == "streaming_diloco":
                    args += ["--comm.fragment_blocks", "1"]
                whole, cut = f"whole-{policy}", f"cut-{policy}"
                r = self.run_it(*args, where=whole)
                self.assertEqual(r.returncode, 0, r.stderr)
                validation = self.losses(whole)
                self.assertLess(validation[-1], validation[0] - 0.5)
                self.assertLess(validation[-1], 3.0)  # uniform over bytes is 5.5
                code, out, err = self.interrupted(*args, rounds=5, where=cut)
                self.assertEqual(code, 130, err)
                g = subprocess.run(self.command(command="generate", where=cut), capture_output=True, text=True, errors="replace", timeout=60)
                self.assertEqual(g.returncode, 0, g.stderr)
                r = self.run_it(*args, where=cut)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("resuming at step", r.stdout)
                for peer in range(4):
                    self.assertEqual(self.checkpoint(whole, peer, 200), self.checkpoint(cut, peer, 200))

    def test_peers_at_their_own_pace_end_alike(self):
        own = {"async_local_sgd": [], "dedloc": ["--train.optimizer", "adamw", "--train.learning_rate", "0.002"], "a_edit": ["--comm.seconds", "0.05", "--comm.fewest_steps", "10"]}
        for policy in own:
            with self.subTest(policy):
                args = ["--peers", "3", "--steps", "240", "--comm.policy", policy, "--comm.batch_samples", "24",
                        "--train.evaluate_every", "20", *own[policy]]
                code, out, err = self.interrupted(*args, rounds=1, where=policy)
                self.assertIn(code, [0, 130], err)
                r = self.run_it(*args, where=policy)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertLess(self.losses(policy)[-1], 3.0)

    def test_every_policy_trains_by_its_name(self):
        unknown = self.run_it("--comm.policy", "telepathy").stderr
        names = re.search(r"use one of ([a-z0-9_, ]+)", unknown).group(1).strip().split(", ")
        self.assertEqual(len(names), 38)
        for name in names:
            for fault in ["fail_stop", "quorum"]:
                with self.subTest(name + " " + fault):
                    local = [] if self.has_no_local_steps(name) else ["--comm.local_steps", "8"]
                    r = self.run_it("--peers", "3", "--steps", "24", "--comm.policy", name, "--fault.policy", fault, *local,
                                    "--comm.batch_samples", "24",
                                    *(["--comm.seconds", "0.05", "--comm.fewest_steps", "10"] if name == "a_edit" else []),
                                    *(["--comm.group_size", "2"] if name == "gaia_asp" else []),
                                    where=name + fault)
                    self.assertEqual(r.returncode, 0, r.stderr)

    def test_links_are_measured_while_a_run_goes_on(self):
        for args in (["--preset", "netstorm"], ["--preset", "bacombo", "--comm.local_steps", "4"]):
            args = ["--peers", "4", "--steps", "24", *args, "--comm.measure_every", "5"]
            if "netstorm" in args:
                args += ["--comm.auxiliary", "2", "--comm.message_bytes", "4000"]
            with self.subTest(args):
                r = self.run_it(*args, where=args[5])
                self.assertEqual(r.returncode, 0, r.stderr)
                r = self.run_it(*args, "--fault.policy", "quorum", where=args[5] + "quorum")
                self.assertNotEqual(r.returncode, 0)
                self.assertRegex(r.stderr, "links.*come and go.*invalid_argument")

    def test_a_word_that_is_nearly_one_of_the_choices_is_asked_about(self):
        for flag in ["--preset", "--comm.policy"]:
            self.fails(self.run_it(flag, "dilco"), "invalid_argument", "did you mean diloco? If not, use one of diloco, ")
        self.fails(self.run_it("--parallel.policy", "piplne"), "invalid_argument", "did you mean pipeline? If not, use data, pipeline")

    def test_systems_of_stages_train_by_their_names(self):
        names = re.search(r"use one of ([a-z0-9_, ]+)", self.run_it("--preset", "telepathy").stderr).group(1).strip().split(", ")
        systems = names[names.index("varuna"):]
        self.assertEqual(len(names), 38 + 22)
        self.assertEqual(systems[19:], ["learning_at_home", "petals_finetune", "petals_lora"])  # test_served.py
        systems = systems[:19]
        for name in systems:
            with self.subTest(name):
                peers = "5" if name == "checkfree_plus" else "4"  # four stages, and one with the ends
                r = self.run_it("--peers", peers, "--preset", name, "--model.layers", "4", "--steps", "24", "--comm.local_steps", "8",
                                where=name)
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(os.path.join(self.dir, name, "causeway", "settings.toml")) as used:
                    said = used.read()
                self.assertIn(f'preset = "{name}"', said)
                self.assertRegex(said, r'\[parallel\]\npolicy = "(pipeline|async_pipeline|swarm)"')

    def test_what_a_preset_sets_can_be_set_otherwise(self):
        def shown(*args):
            out = subprocess.run([PROGRAM, "config", *args], capture_output=True, text=True, timeout=60).stdout
            return dict(re.findall(r"^([a-z_.]+) *= (\S*)", out, re.M))
        bamboo = shown("--preset", "bamboo")
        self.assertEqual((bamboo["parallel.recovery"], bamboo["fault.policy"], bamboo["comm.policy"], bamboo["train.micro_batches"]),
                         ("redundant_forward", "quorum", "every_step", "8"))
        other = shown("--preset", "bamboo", "--parallel.recovery", "regroup", "--train.micro_batches", "2")
        self.assertEqual((other["parallel.recovery"], other["train.micro_batches"], other["parallel.policy"]), ("regroup", "2", "pipeline"))
        self.assertEqual(shown("--preset", "sparse_loco")["comm.local_steps"], "30")

    def has_no_local_steps(self, name):
        return name in ["every_step", "demo", "distro", "sparta", "cocktail_sgd", "gaia", "gaia_asp", "power_sgd", "dion", "dedloc", "netstorm", "a_edit", "stella_train"]

    def test_a_torn_checkpoint_falls_back_to_the_one_before(self):
        args = ["--peers", "2", "--steps", "40", "--train.checkpoint_every", "10"]
        self.assertEqual(self.run_it(*args).returncode, 0)
        reference = self.checkpoint("runs", 0, 40)
        path = os.path.join(self.dir, "runs", "causeway", "peer-1", "step-00000040.ckpt")
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        r = self.run_it(*args)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("resuming at step 30", r.stdout)
        self.assertIn("passing over a checkpoint", r.stderr)
        self.assertEqual(self.checkpoint("runs", 0, 40), reference)

    def test_a_killed_peer_ends_the_run_clearly_and_nothing_committed_is_lost(self):
        args = ["--peers", "3", "--steps", "100000", "--train.checkpoint_every", "10", "--train.evaluate_every", "10"]
        p = subprocess.Popen(self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        saved = [os.path.join(self.dir, "runs", "causeway", f"peer-{i}", "step-*.ckpt") for i in range(3)]
        while p.poll() is None and any(len(glob.glob(each)) < 2 for each in saved):
            time.sleep(0.02)
        children = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True, errors="replace").stdout.split()
        os.kill(int(children[0]), signal.SIGKILL)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("[peer_lost]", err)
        self.assertIn("start the same command to go on", err)
        r = self.interrupted_resume(args)
        self.assertIn("resuming at step", r)

    def interrupted_resume(self, args):
        p = subprocess.Popen(self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        for line in p.stdout:
            if "resuming" in line:
                break
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        return line


class Pipelines(Program):
    STAGES = ["--parallel.policy", "pipeline", "--train.micro_batches", "4", "--model.layers", "4", "--comm.policy", "every_step"]

    def last(self, where, what):
        with open(os.path.join(self.dir, where, "causeway", "peer-0", "metrics.jsonl")) as f:
            return [json.loads(line)[what] for line in f if f'"{what}"' in line][-1]

    def test_stages_on_four_processes_train_as_one_peer_does(self):
        one = self.run_it("--peers", "1", "--steps", "30", *self.STAGES[2:], where="one")
        self.assertEqual(one.returncode, 0, one.stderr)
        for schedule, peers, cuts in [("1f1b", "4", ""), ("interleaved", "2", ""), ("zero_bubble", "2", "3"), ("zero_bubble_h2", "2", ""), ("zero_bubble_v", "2", ""),
                                       ("chimera", "4", ""), ("dual_pipe", "2", "")]:
            with self.subTest(schedule):
                r = self.run_it("--peers", peers, "--steps", "30", "--parallel.schedule", schedule, "--parallel.cuts", cuts,
                                *self.STAGES, where=schedule)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("validation loss", r.stdout)
                self.assertAlmostEqual(self.last(schedule, "loss"), self.last("one", "loss"), delta=1e-4)
                self.assertAlmostEqual(self.last(schedule, "validation_loss"), self.last("one", "validation_loss"), delta=1e-4)

    def test_replicas_of_a_pipeline_and_text_from_its_stages(self):
        args = ["--peers", "4", "--parallel.stages", "2", "--parallel.codec", "int8", *self.STAGES[:-1], "diloco"]
        r = self.run_it("--steps", "20", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        g = subprocess.run(self.command(*args, command="generate"), capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(g.returncode, 0, g.stderr)
        self.assertGreater(len(g.stdout), 8)
        shutil.rmtree(os.path.join(self.dir, "runs", "causeway", "peer-1"))
        self.fails(subprocess.run(self.command(*args, command="generate"), capture_output=True, text=True, timeout=60), "not_found",
                   "bring the folders of all peers")

    def test_stages_of_replicas_are_paired_at_random(self):
        args = ["--peers", "4", "--parallel.stages", "2", *self.STAGES[:-1], "noloco", "--comm.local_steps", "8", "--steps", "24"]
        for routes in ["false", "true"]:
            r = self.run_it(*args, "--parallel.random_routes", routes, where=routes)
            self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotEqual(self.last("true", "loss"), self.last("false", "loss"))
        self.assertAlmostEqual(self.last("true", "validation_loss"), self.last("false", "validation_loss"), delta=0.2)
        self.assertLess(self.last("true", "validation_loss"), 5.2)  # uniform over bytes is 5.5
        self.fails(self.run_it(*args, "--parallel.random_routes", "true", "--parallel.schedule", "chimera"), "invalid_argument",
                   "parallel.random_routes", "one chunk")

    def test_with_every_policy_whose_rounds_come_after_steps(self):
        local = ["open_diloco", "local_sgd", "intellect1", "muloco", "fedavg", "photon", "des_loc", "streaming_diloco", "eager_diloco",
                 "sparse_loco", "sparta_diloco", "cocktail_sgd", "noloco", "moshpit_sgd", "bacombo", "ravnest", "edit"]
        for policy in local + ["sparta", "gaia", "power_sgd", "dion", "snoo", "netstorm", "demo", "distro", "stella_train"]:
            with self.subTest(policy):
                args = ["--peers", "4", "--parallel.stages", "2", *self.STAGES[:-1], policy,
                        *(["--comm.local_steps", "8"] if policy in local else []),
                        *(["--train.optimizer", "sgd", "--train.learning_rate", "0.01"] if policy in ("demo", "distro") else [])]
                r = self.run_it("--steps", "24", "--train.evaluate_every", "8", *args, where=policy)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("validation loss", r.stdout)
                g = subprocess.run(self.command(*args, command="generate", where=policy), capture_output=True, text=True,
                                   errors="replace", timeout=60)
                self.assertEqual(g.returncode, 0, g.stderr)

    def test_an_interrupted_pipeline_ends_with_the_same_bits(self):
        two = ["--peers", "2", "--parallel.codec", "delta_int4", *self.STAGES]
        four = ["--peers", "4", "--parallel.stages", "2", *self.STAGES[:-1], "streaming_diloco", "--comm.local_steps", "16"]
        for args in (two, four):
            args = [*args, "--steps", "300", "--train.evaluate_every", "10"]
            whole, cut = "whole" + args[1], "cut" + args[1]
            with self.subTest(args):
                self.assertEqual(self.run_it(*args, where=whole).returncode, 0)
                code, _, err = Training.interrupted(self, *args, rounds=3, where=cut)
                self.assertIn(code, [0, 130], err)
                r = self.run_it(*args, where=cut)
                self.assertEqual(r.returncode, 0, r.stderr)
                for peer in range(int(args[1])):
                    self.assertEqual(self.checkpoint(whole, peer, 300), self.checkpoint(cut, peer, 300))

    def test_stages_that_never_wait_learn_and_go_on_when_they_were_stopped(self):
        args = ["--preset", "nag_pp", "--peers", "4", "--model.layers", "4", "--comm.local_steps", "8", "--train.evaluate_every", "8"]
        for where, more in [("one", []), ("two", ["--parallel.stages", "2", "--parallel.codec", "int8", "--parallel.ahead", "1"])]:
            with self.subTest(where):
                r = self.run_it("--steps", "100", *args, *more, where=where)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertLess(self.last(where, "validation_loss"), 4.5)  # uniform over bytes is 5.5
                self.assertLess(self.last(where, "loss"), 5)
                g = subprocess.run(self.command(*args, *more, command="generate", where=where), capture_output=True, text=True,
                                   errors="replace", timeout=60)
                self.assertEqual(g.returncode, 0, g.stderr)
        code, _, err = Training.interrupted(self, *args, "--steps", "300", rounds=3, where="cut")
        self.assertIn(code, [0, 130], err)
        r = self.run_it(*args, "--steps", "300", where="cut")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("resuming at step", r.stdout)

    def learns_and_goes_on(self, args, where):
        """Interrupted after a few rounds and started again."""
        code, _, err = Training.interrupted(self, *args, "--steps", "100", rounds=3, where=where)
        self.assertIn(code, [0, 130], err)
        r = self.run_it(*args, "--steps", "100", where=where)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertLess(self.last(where, "validation_loss"), 4.5)  # uniform over bytes is 5.5

    def test_stages_that_never_wait_average_gradients_by_every_policy_that_does(self):
        for policy in ("every_step", "demo", "distro", "power_sgd", "dion", "netstorm"):
            signs = ["--train.learning_rate", "0.003"] if policy in ("demo", "distro") else []
            args = ["--parallel.policy", "async_pipeline", "--peers", "4", "--parallel.stages", "2", "--train.micro_batches", "2", "--model.layers", "4",
                    "--comm.policy", policy, "--train.evaluate_every", "8", *signs]
            with self.subTest(policy):
                self.learns_and_goes_on(args, policy)

    def test_presets_of_stages_with_an_optimizer_of_their_own_learn_and_go_on(self):
        for preset in ("basis_rotation", "protocol_models"):
            args = ["--preset", preset, "--peers", "4", "--model.layers", "4", "--train.evaluate_every", "8"]
            with self.subTest(preset):
                self.learns_and_goes_on(args, preset)
                g = subprocess.run(self.command(*args, command="generate", where=preset), capture_output=True, text=True,
                                   errors="replace", timeout=60)
                self.assertEqual(g.returncode, 0, g.stderr)

    def test_shapes_that_do_not_fit_are_said(self):
        never = ["--peers", "2", "--parallel.policy", "async_pipeline", *self.STAGES[2:-1]]
        self.fails(self.run_it(*never, "dedloc"), "invalid_argument", "comm.policy", "at different times with dedloc; use diloco")
        self.fails(self.run_it(*never, "diloco", "--parallel.schedule", "gpipe"), "invalid_argument", "parallel.schedule")
        self.fails(self.run_it(*never, "every_step", "--fault.policy", "quorum"), "invalid_argument", "comm.policy", "drained", "diloco")
        self.fails(self.run_it(*never, "diloco", "--model.tie", "true"), "invalid_argument", "model.tie")
        self.fails(self.run_it("--peers", "3", "--parallel.stages", "2", *self.STAGES), "invalid_argument", "parallel.stages", "divide")
        self.fails(self.run_it("--peers", "8", *self.STAGES), "invalid_argument", "model.layers is 4")
        self.fails(self.run_it("--peers", "2", "--parallel.schedule", "best", *self.STAGES), "invalid_argument", "zero_bubble")
        self.fails(self.run_it("--peers", "2", *self.STAGES[:-1], "dedloc"), "invalid_argument", "comm.policy", "streaming_diloco")
        self.fails(self.run_it("--peers", "4", "--parallel.schedule", "dual_pipe", *self.STAGES), "invalid_argument",
                   "parallel.schedule", "twice as many micro-batches as ranks")
        self.fails(self.run_it("--peers", "3", "--parallel.schedule", "chimera", *self.STAGES), "invalid_argument",
                   "parallel.schedule", "even number of ranks")
        self.fails(self.run_it("--peers", "2", "--parallel.schedule", "chimera", "--parallel.codec", "delta_int4", *self.STAGES),
                   "invalid_argument", "parallel.codec", "the other way")
        subspace = ["--peers", "2", "--parallel.codec", "subspace", *self.STAGES]
        self.fails(self.run_it(*subspace[:-1], "diloco"), "invalid_argument", "parallel.codec", "every_step")
        self.fails(self.run_it(*subspace, "--model.dropout", "0.1"), "invalid_argument", "model.dropout")
        self.fails(self.run_it(*subspace, "--parallel.directions", "33"), "invalid_argument", "parallel.directions", "32")
        self.fails(self.run_it("--peers", "2", "--comm.policy", "dlion", "--train.micro_batches", "2"), "invalid_argument",
                   "train.micro_batches")
        for cuts in ["1,2", "0", "4", "two"]:
            self.fails(self.run_it("--peers", "2", "--parallel.cuts", cuts, *self.STAGES), "invalid_argument", "parallel.cuts")


class BadInput(Program):
    def test_text(self):
        def with_text(content):
            with open(self.text, "wb") as f:
                f.write(content)
            return self.run_it()
        self.fails(with_text(b""), "bad_text", "empty")
        self.fails(with_text(b"too short"), "bad_text", "short")
        self.fails(with_text(b"good " * 500 + b"\xff\xfe" + b"bad " * 500), "bad_text", "UTF-8")
        os.remove(self.text)
        self.fails(self.run_it(), "not_found", self.text)

    def test_shapes_and_settings(self):
        self.fails(self.run_it("--model.heads", "5"), "invalid_argument", "heads (5)", "use one of")
        self.fails(self.run_it("--model.layers", "0"), "invalid_argument", "layers")
        self.fails(self.run_it("--model.layers", "many"), "invalid_argument", "'many'")
        self.fails(self.run_it("--model.layres", "3"), "invalid_argument", "model.layres", "did you mean")
        self.fails(self.run_it("--train.micro_batches", "3"), "invalid_argument", "train.batch")
        self.fails(self.run_it("--comm.policy", "telepathy"), "invalid_argument", "diloco")
        self.fails(self.run_it("--comm.policy", "every_step", "--fault.policy", "quorum", "--train.optimizer", "muon"), "invalid_argument",
                   "train.optimizer", "adamw")
        for setting in ["comm.group_size", "net.region"]:
            self.fails(self.run_it("--comm.policy", "gaia_asp", "--fault.policy", "quorum", "--parallel.policy", "pipeline", "--" + setting, "2"),
                       "invalid_argument", setting, "taken back")
        self.fails(self.run_it("--comm.policy", "sparse_loco", "--comm.codec", "int8"), "invalid_argument", "comm.codec", "diloco")
        self.fails(self.run_it("--comm.policy", "demo", "--train.optimizer", "muon"), "invalid_argument", "sgd")
        self.fails(self.run_it("--comm.policy", "snoo", "--train.optimizer", "adamw"), "invalid_argument", "train.optimizer", "snoo")
        self.fails(self.run_it("--comm.policy", "diloco", "--train.optimizer", "dion"), "invalid_argument", "train.optimizer", "dion")
        self.fails(self.run_it("--comm.policy", "dion", "--comm.rank", "0"), "invalid_argument", "comm.rank")
        self.fails(self.run_it("--peers", "0"), "invalid_argument", "peers")
        self.fails(self.run_it("@" + self.dir + "/none.toml"), "not_found", "none.toml")
        bad = os.path.join(self.dir, "bad.toml")
        with open(bad, "w") as f:
            f.write("[model]\nlayers = = 3\n")
        self.fails(self.run_it("@" + bad), "invalid_argument", "bad.toml:2")

    def test_a_run_of_another_shape(self):
        self.assertEqual(self.run_it("--steps", "2").returncode, 0)
        self.fails(self.run_it("--steps", "4", "--model.layers", "3"), "wrong_model", "model.layers", "is 3, and was ", "--run.fresh")
        self.fails(self.run_it("--steps", "4", "--preset", "noloco"), "wrong_model", "comm.policy", "is noloco, and was diloco", "--run.fresh")

    def test_numbers_that_training_cannot_work_with(self):
        for name, values in {"train.learning_rate": ["-1", "0", "nan", "inf"], "train.clip": ["-1", "nan"], "model.dropout": ["1", "-0.1", "nan"],
                             "train.weight_decay": ["-1"], "comm.outer_learning_rate": ["-1", "nan"], "comm.outer_momentum": ["nan"],
                             "sample.temperature": ["-1"], "data.validation": ["nan"]}.items():
            for value in values:
                with self.subTest(name, value=value):
                    self.fails(self.run_it("--steps", "1", "--" + name, value), "invalid_argument", name)

    def test_a_setting_without_its_value(self):
        self.fails(self.run_it("--peers"), "invalid_argument", "--net.peers", "needs a value", "peers in the run")
        self.fails(self.run_it("--data.path", "--steps", "3"), "invalid_argument", "--data.path", "needs a value")
        r = self.run_it("--steps", "1", "--quiet")  # a switch needs none
        self.assertEqual((r.returncode, r.stdout), (0, ""), r.stderr)

    def test_what_cannot_work_as_it_was_given_ends_with_2(self):
        for arguments in [["trian"], ["train", "text.txt"], ["join"], ["check-journal"], ["plan", "--links"], ["replay", "--what"], []]:
            with self.subTest(arguments):
                r = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
                self.assertEqual(r.returncode, 2, r.stderr)

    def test_a_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.fails(self.run_it("--peers", "2", "--listen", f"127.0.0.1:{port}"), "address_in_use", str(port), "--listen")

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
    def test_a_full_disk(self):
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("no tmpfs here")
        try:
            r = self.run_it("--steps", "30", "--train.checkpoint_every", "10", where="disk")
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn("[disk_full]", r.stderr)
            self.assertIn("space", r.stderr)
            whole = glob.glob(os.path.join(disk, "causeway", "peer-0", "*.ckpt"))
            left = glob.glob(os.path.join(disk, "causeway", "peer-0", "*.tmp"))
            self.assertEqual(left, [])
            subprocess.run(["mount", "-o", "remount,size=9m", disk], check=True)
            r = self.run_it("--steps", "30", "--train.checkpoint_every", "10", where="disk")
            self.assertEqual(r.returncode, 0, r.stderr)
            if whole:
                self.assertIn("resuming", r.stdout)
        finally:
            subprocess.run(["umount", disk])


class Joining(Program):
    def start_host(self, *args):
        host = subprocess.Popen(self.command("--listen", "127.0.0.1:0", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, errors="replace", start_new_session=True)
        for line in host.stdout:
            match = re.search(r"causeway join (\S+)", line)
            if match:
                return host, match.group(1)
        self.fail(host.stderr.read())

    def join(self, address, *args, where="other"):
        return subprocess.Popen([PROGRAM, "join", address, "--run.directory", os.path.join(self.dir, where), "--data.path",
                                 self.text, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                start_new_session=True)

    def test_the_printed_command_joins_and_both_end_alike(self):
        host, address = self.start_host("--peers", "2", "--steps", "20")
        peer = self.join(address)
        out, err = peer.communicate(timeout=60)
        self.assertEqual(peer.returncode, 0, err)
        out, err = host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0, err)

        def parameters(blob):
            return blob.count(b""), len(blob)
        self.assertEqual(parameters(self.checkpoint("runs", 0, 20)), parameters(self.checkpoint("other", 1, 20)))

    def test_a_peer_with_another_model_is_told_which_setting_differs(self):
        host, address = self.start_host("--peers", "2")
        peer = self.join(address, "--model.layers", "6")
        out, err = peer.communicate(timeout=60)
        self.assertEqual(peer.returncode, 1)
        self.assertIn("model.layers", err)
        self.assertIn("[wrong_model]", err)
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=60)

    def test_a_peer_with_another_text_is_told_so(self):
        host, address = self.start_host("--peers", "2")
        with open(self.text, "a") as f:
            f.write("and one more line\n")
        peer = self.join(address)
        out, err = peer.communicate(timeout=60)
        self.assertEqual(peer.returncode, 1)
        self.assertIn("text", err)
        self.assertIn("[wrong_model]", err)
        host.communicate(timeout=60)

    def test_a_peer_that_speaks_garbage_is_turned_away_and_the_run_goes_on(self):
        host, address = self.start_host("--peers", "2", "--steps", "10")
        name, port = address.rsplit(":", 1)
        for garbage in [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4096, bytes(range(256)) * 64]:
            with socket.create_connection((name, int(port))) as s:
                try:
                    s.sendall(garbage)
                    s.settimeout(20)
                    while s.recv(4096):
                        pass
                except OSError:
                    pass
        peer = self.join(address)
        out, err = peer.communicate(timeout=60)
        self.assertEqual(peer.returncode, 0, err)
        out, err = host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0, err)

    def test_nobody_there(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        p = self.join(f"127.0.0.1:{port}", "--net.patience", "1")
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("[unreachable]", err)


class Settings(Program):
    def test_precedence_and_origin(self):
        toml = os.path.join(self.dir, "run.toml")
        with open(toml, "w") as f:
            f.write("[model]\nlayers = 5\nwidth = 96\nheads = 3\n")
        env = dict(os.environ, CAUSEWAY_MODEL_WIDTH="192")
        r = subprocess.run([PROGRAM, "config", "--effective", "@" + toml, "--model.heads", "6"], capture_output=True, text=True, errors="replace",
                           env=env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"model\.layers += 5 +# .*run\.toml:2")
        self.assertRegex(r.stdout, r"model\.width += 192 +# CAUSEWAY_MODEL_WIDTH")
        self.assertRegex(r.stdout, r"model\.heads += 6 +# --model\.heads")
        self.assertRegex(r.stdout, r"train\.batch += 8 +# default")

    def test_a_policy_has_defaults_of_its_own_and_what_is_said_wins(self):
        r = subprocess.run([PROGRAM, "config", "--effective", "--comm.policy", "streaming_diloco", "--comm.overlap_steps", "3"],
                           capture_output=True, text=True, errors="replace")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"comm\.local_steps += 100 +# default of streaming_diloco")
        self.assertRegex(r.stdout, r"comm\.outer_learning_rate += 0\.4 +# default of streaming_diloco")
        self.assertRegex(r.stdout, r"comm\.overlap_steps += 3 +# --comm\.overlap_steps")


class Schedules(unittest.TestCase):
    def draw(self, *args):
        return subprocess.run([PROGRAM, "schedule", *args], capture_output=True, text=True, errors="replace", timeout=60)

    def test_a_schedule_is_drawn_with_its_figures(self):
        r = self.draw("--schedule", "zero_bubble", "--stages", "3", "--micro-batches", "4")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout.startswith("rank 0  012..Aa3BbCcDd\nrank 1  .01.A2Ba3CbDcd\nrank 2  ..0A1B2Ca3Dbcd\n"), r.stdout)
        self.assertIn("14 s, efficiency 0.857", r.stdout)

    def test_every_schedule_can_be_drawn_and_saved(self):
        names = re.search(r"use (.*) \[", self.draw("--schedule", "gpip").stderr).group(1).replace(" or ", ", ").split(", ")
        self.assertEqual(len(names), 11)
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                file = os.path.join(folder, name + ".svg")
                r = self.draw("--schedule", name, "--latency", "0.1", "--jitter", "0.2", "--opportunistic", "--svg", file)
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(file) as f:
                    self.assertIn(name, f.read())

    def test_what_does_not_fit_is_said_in_one_line(self):
        for args, part in [(["--schedule", "gpip"], "'gpip'; did you mean gpipe? If not, use gpipe, 1f1b"), (["--stages", "many"], "'many' does not fit"),
                           (["--micro-batch", "3"], "--help"), (["--stages"], "needs a value"),
                           (["--schedule", "interleaved", "--chunks", "2", "--micro-batches", "7"], "4 ranks divide, not 7"),
                           (["--forward", "-1"], "seconds from 0")]:
            r = self.draw(*args)
            self.assertEqual(r.returncode, 2, r.stdout)
            self.assertIn(part, r.stderr)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)


if __name__ == "__main__":
    unittest.main()
