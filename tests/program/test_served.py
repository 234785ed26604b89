#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whose servers hold a part of the model, by their presets: experts that learn, blocks of a frozen model. Servers are
killed, stopped, started elsewhere. usage: test_served.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, os, random, re, signal, subprocess, unittest
from pathlib import Path

from support import PROGRAM, Program, until, words

EXPERTS = ["--preset", "learning_at_home", "--experts.sides", "2,2", "--experts.chosen", "2"]
SMALL_SERVER = ["--model.layers", "2", "--model.width", "32"]  # what experts' servers know of support.SMALL


def in_order(step, length=6000):
    """Words of which each follows the one before it in nine cases of ten: the task."""
    every, draw, at, text = sorted(set(words(500).split())), random.Random(1), 0, []
    for _ in range(length):
        at = (at + step) % len(every) if draw.random() < 0.9 else draw.randrange(len(every))
        text.append(every[at])
    return " ".join(text)


class Served(Program):
    def setUp(self):
        super().setUp()
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(60)

    def start(self, command):
        """In the background; `said` is what it has printed."""
        log = open(os.path.join(self.dir, f"output-{len(self.started)}"), "w+", errors="replace")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.dir)
        process.said = lambda: Path(log.name).read_text(errors="replace")
        self.started.append(process)
        return process

    def folder(self, *parts, where="runs"):
        return os.path.join(self.dir, where, "causeway", *parts)

    def validation(self, said):
        found = re.search(r"validation loss ([0-9.]+)", said)
        self.assertIsNotNone(found, said)
        return float(found.group(1))

    def step(self, peer=0):
        """The newest that a peer wrote down."""
        path = self.folder(f"peer-{peer}", "metrics.jsonl")
        steps = re.findall(r'"step":(\d+)', Path(path).read_text()) if os.path.exists(path) else []
        return int(steps[-1]) if steps else 0

    def server(self, part, where="runs"):
        """Its process."""
        return int(Path(self.folder(f"server-{part}", "address", where=where)).read_text().split()[1])

    def serve(self, *args):
        """At another place than the run; where it listens."""
        process = self.start([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--run.directory", os.path.join(self.dir, f"at-{len(self.started)}"),
                              "--threads", "1", *args])
        until(lambda: "serving part" in process.said(), process)
        return process, re.search(r" at (127\.0\.0\.1:\d+);", process.said()).group(1)


class Experts(Served):
    def test_peers_and_experts_learn_by_the_preset_and_go_on_where_they_were(self):
        done = self.run_it(*EXPERTS, "--peers", "2", "--steps", "60")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        first = self.validation(done.stdout)
        self.assertLess(first, 4.0)  # uniform over bytes is 5.5
        for part in (0, 1):
            self.assertTrue(glob.glob(self.folder(f"server-{part}", "step-*.ckpt")))
            self.assertRaises(ProcessLookupError, os.kill, self.server(part), 0)
        # With experts that began anew it would be worse than before.
        more = self.run_it(*EXPERTS, "--peers", "2", "--steps", "70", "--lr", "1e-6", "--experts.learning_rate", "1e-6")
        self.assertEqual(more.returncode, 0, more.stdout + more.stderr)
        self.assertAlmostEqual(self.validation(more.stdout), first, delta=0.02)
        other = self.run_it("--preset", "learning_at_home", "--experts.sides", "4,2", "--peers", "2", "--steps", "80")
        self.fails(other, "wrong_model", "experts.sides")
        text = subprocess.run(self.command(*EXPERTS, command="generate"), capture_output=True, text=True)
        self.fails(text, "unsupported", "servers")

    def test_other_policies_average_what_peers_hold_beside_the_experts(self):
        for comm in ["streaming_diloco", "noloco"]:
            done = self.run_it(*EXPERTS, "--comm", comm, "--peers", "2", "--steps", "20", "--servers.here", "1", where=comm)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(self.validation(done.stdout), 5.4)

    def test_a_killed_server_costs_its_experts_for_a_while_and_ctrl_c_ends_all(self):
        run = self.start(self.command(*EXPERTS, "--peers", "2", "--steps", "100000", "--eval-every", "0"))
        until(lambda: self.step() > 5, run)
        killed = self.server(1)
        os.kill(killed, signal.SIGKILL)
        until(lambda: "starting it again" in run.said(), run)
        until(lambda: self.server(1) != killed, run)
        then = self.step()
        until(lambda: self.step() > then + 20, run)
        servers = [self.server(part) for part in (0, 1)]
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(60), 130, run.said())
        self.assertIn("everything is saved", run.said())
        for one in servers:
            self.assertRaises(ProcessLookupError, os.kill, one, 0)

    def test_servers_elsewhere_serve_a_run_that_is_told_where(self):
        parts = [self.serve(*EXPERTS, *SMALL_SERVER, "--servers.parts", "2", "--servers.part", str(p)) for p in (0, 1)]
        addresses = ",".join(address for _, address in parts)
        done = self.run_it(*EXPERTS, "--peers", "2", "--steps", "20", "--servers", addresses)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse(os.path.exists(self.folder("server-0")))
        for process, _ in parts:
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130, process.said())
        other = subprocess.run([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--run.directory", os.path.join(self.dir, "at-0"), *EXPERTS,
                                "--model.layers", "2", "--model.width", "64"], capture_output=True, text=True, timeout=60)
        self.fails(other, "wrong_model", "another size")
        none = self.run_it(*EXPERTS, "--steps", "20", "--servers", addresses, "--net.patience", "1", where="alone")
        self.fails(none, "timeout", "causeway serve")

    def test_what_cannot_work_is_told_with_its_remedy(self):
        self.fails(self.run_it(*EXPERTS, "--fault", "quorum"), "unsupported", "fail_stop")
        self.fails(self.run_it(*EXPERTS, "--experts.chosen", "5"), "invalid_argument", "experts.chosen", "4")
        self.fails(self.run_it(*EXPERTS, "--experts.sides", "200,200"), "invalid_argument", "experts.sides")
        serve = subprocess.run([PROGRAM, "serve", *EXPERTS], capture_output=True, text=True)
        self.fails(serve, "invalid_argument", "--listen")
        serve = subprocess.run([PROGRAM, "serve", "--listen", "127.0.0.1:0"], capture_output=True, text=True)
        self.fails(serve, "invalid_argument", "petals_lora")


class Petals(Served):
    FEW = ["--batch-size", "4", "--train.evaluate_tokens", "512", "--lr", "0.03", "--warmup-steps", "5"]

    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.dir, "model")
        Path(self.text).write_text(in_order(1))
        base = self.run_it("--peers", "1", "--comm", "every_step", "--steps", "60", "--model.layers", "4", "--data.tokenizer", "bpe",
                           "--data.vocabulary", "280", where="base")
        self.assertEqual(base.returncode, 0, base.stderr)
        made = subprocess.run([PROGRAM, "export", self.model, "--run.directory", os.path.join(self.dir, "base")], capture_output=True,
                              text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        Path(self.text).write_text(in_order(3))

    def command(self, *args, where="runs", command="train"):
        if where == "base":
            return super().command(*args, where=where, command=command)
        return [PROGRAM, command, "--run.directory", os.path.join(self.dir, where), "--data.path", self.text, *self.FEW, *args]

    def tune(self, preset, *args):
        done = self.run_it("--preset", preset, "--init", self.model, *args)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.validation(done.stdout)

    def test_adapters_and_prompts_tune_a_frozen_model_by_their_presets(self):
        weights = Path(self.model, "model.safetensors").read_bytes()
        maps = ["--tune.maps", "query,key,value,output,feed_forward"]
        bare = self.tune("petals_lora", *maps, "--steps", "1", "--lr", "1e-9", "--name", "bare")
        tuned = self.tune("petals_lora", *maps, "--steps", "20")
        self.assertLess(tuned, bare - 0.3)
        saved = os.path.getsize(glob.glob(self.folder("peer-0", "step-*.ckpt"))[-1])
        self.assertAlmostEqual(self.tune("petals_lora", *maps, "--steps", "21", "--lr", "1e-9"), tuned, delta=0.02)  # goes on
        merged = os.path.join(self.dir, "merged")
        made = subprocess.run([PROGRAM, "export", merged, "--run.directory", os.path.join(self.dir, "runs"), "--init", self.model], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        alone = self.run_it("--init", merged, "--peers", "1", "--comm", "every_step", "--steps", "1", "--lr", "1e-9", where="alone")
        self.assertAlmostEqual(self.validation(alone.stdout), tuned, delta=0.03)  # without rounding to 8 bits
        prompts = ["--tune.prompts", "4", "--name", "prompts"]
        few = self.tune("petals_finetune", *prompts, "--steps", "1", "--lr", "1e-9")
        self.assertLess(self.tune("petals_finetune", *prompts, "--steps", "20"), few)
        self.assertLess(os.path.getsize(glob.glob(self.folder("..", "prompts", "peer-0", "step-*.ckpt"))[-1]), saved)
        self.assertEqual(Path(self.model, "model.safetensors").read_bytes(), weights)

    def test_llama_is_tuned_and_written_as_a_model_of_its_own(self):
        llama = ["--model.family", "llama", "--model.kv_heads", "1", "--peers", "1", "--comm", "every_step", "--steps", "10", "--name", "llama"]
        self.assertEqual(self.run_it(*llama, "--data.tokenizer", "bpe", "--data.vocabulary", "280", where="base").returncode, 0)
        self.model, merged = os.path.join(self.dir, "llama"), os.path.join(self.dir, "merged")
        for folder, where, *more in [(self.model, "base", "--name", "llama"), (merged, "runs", "--init", self.model)]:
            if folder == merged:
                tuned = self.tune("petals_lora", "--tune.maps", "query,key,value,output,feed_forward", "--steps", "10")
            made = subprocess.run([PROGRAM, "export", folder, "--run.directory", os.path.join(self.dir, where), *more], capture_output=True,
                                  text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
        bare, alone = (self.run_it("--init", model, "--peers", "1", "--comm", "every_step", "--steps", "1", "--lr", "1e-9", "--name", name,
                                   where="alone") for model, name in [(self.model, "bare"), (merged, "merged")])
        self.assertAlmostEqual(self.validation(alone.stdout), tuned, delta=0.01)
        self.assertGreater(self.validation(bare.stdout), tuned + 0.1)

    def test_a_killed_server_is_waited_for_and_the_steps_go_on(self):
        run = self.start(self.command("--preset", "petals_lora", "--init", self.model, "--steps", "100000", "--eval-every", "0"))
        until(lambda: self.step() > 3, run)
        killed = self.server(1)
        os.kill(killed, signal.SIGKILL)
        until(lambda: self.server(1) != killed, run)
        then = self.step()
        until(lambda: self.step() > then + 5, run)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(60), 130, run.said())

    def test_two_peers_share_a_task_over_servers_elsewhere_of_which_one_is_lost(self):
        one, first = self.serve("--preset", "petals_lora", "--init", self.model)
        two, second = self.serve("--preset", "petals_lora", "--init", self.model)
        self.assertIn("--init", one.said())
        run = self.start(self.command("--preset", "petals_lora", "--init", self.model, "--peers", "2", "--steps", "40", "--servers",
                                      f"{first},{second}"))
        until(lambda: self.step() > 3, run)
        one.kill()
        self.assertEqual(run.wait(60), 0, run.said())
        two.send_signal(signal.SIGINT)
        self.assertEqual(two.wait(60), 130, two.said())

    def test_what_is_missing_is_told_with_the_command_that_makes_it(self):
        self.fails(self.run_it("--preset", "petals_lora"), "invalid_argument", "--init", "causeway export")
        self.fails(self.run_it("--preset", "petals_lora", "--init", self.model, "--tune.rank", "0"), "invalid_argument", "tune.rank")
        self.fails(self.run_it("--preset", "petals_lora", "--init", self.model, "--tune.maps", "query,valu"), "invalid_argument", "feed_forward")
        self.fails(self.run_it("--preset", "petals_finetune", "--init", self.model, "--tune.prompts", "99"), "invalid_argument", "prompts")
        self.fails(self.run_it("--preset", "petals_lora", "--init", self.model, "--servers.here", "9"), "invalid_argument", "4 blocks")


if __name__ == "__main__":
    unittest.main()
