#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whose peers train paths (dipaco): documents find their paths, and so do texts at the end.
usage: test_paths.py PATH_OF_CAUSEWAY [unittest options]"""
import array, filecmp, json, os, random, re, signal, subprocess, unittest

from support import PROGRAM, Program

KINDS = [["sea", "ease"], ["17", "171"], ["KLK", "LKL"], ["(+)", "+)("]]
LENGTH = 32  # of a sequence in support.SMALL
COUNTS = [150, 60, 110, 80]


class Paths(Program):
    def setUp(self):
        """One sequence after the other, each of one kind."""
        super().setUp()
        chance = random.Random(5)
        self.kinds = [kind for kind, count in enumerate(COUNTS) for _ in range(count)]
        chance.shuffle(self.kinds)
        with open(self.text, "w") as f:
            f.write("".join(self.sequence(chance, kind) for kind in self.kinds))

    def sequence(self, chance, kind):
        text = ""
        while len(text) < LENGTH:
            text += chance.choice(KINDS[kind]) + " "
        return text[:LENGTH]

    def paths(self, *args, **more):
        return self.run_it("--preset", "dipaco", "--peers", "4", "--comm.paths", "4", *args, **more)

    def shards(self, said):
        return [[int(n) for n in line.split(", ")] for line in re.findall(r"by their first \d+: ([0-9, ]+)$", said, re.M)]

    def writer(self, *args, where="runs"):
        g = subprocess.run(self.command(*args, command="generate", where=where), capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(g.returncode, 0, g.stderr)
        return int(re.search(r"^path (\d) of 4$", g.stderr, re.M)[1])

    def test_each_path_has_the_documents_of_one_kind_and_goes_on_from_prompts_of_it(self):
        r = self.paths("--steps", "20")
        self.assertEqual(r.returncode, 0, r.stderr)
        trained = (int(len(self.kinds) * LENGTH * 0.95) - 1) // LENGTH  # the rest is for validation
        expected = [self.kinds[:trained].count(kind) for kind in range(4)]
        shards = self.shards(r.stdout)
        self.assertEqual(len(shards), 1, r.stdout)
        self.assertEqual(sorted(shards[0]), sorted(expected))
        self.assertIn("each text was judged by the path that its first 16 tokens are sent to", r.stdout)
        folder = os.path.join(self.dir, "runs", "causeway")
        for kind in range(4):  # a prompt goes where its kind has gone
            prompt = self.sequence(random.Random(9), kind)
            self.assertEqual(shards[0][self.writer("--prompt", prompt)], expected[kind])
        self.assertEqual(self.writer("--prompt", "the same", "--sample.path", "3"), 3)
        self.assertFalse(filecmp.cmp(*(f"{folder}/peer-{p}/step-00000020.ckpt" for p in (0, 1)), shallow=False))

    def test_a_text_goes_on_along_another_path_where_it_turns_to_something_else(self):
        """Held-out sequences begin as one kind and end as another."""
        chance = random.Random(6)
        with open(self.text, "w") as f:
            f.write("".join(self.sequence(chance, kind) for kind in self.kinds[:380]))
            for _ in range(20):
                f.write("".join(self.sequence(chance, kind)[:LENGTH // 2] for kind in chance.sample(range(4), 2)))
        losses, args = {}, ["--steps", "60", "--comm.route_prefix", "8"]
        for within in (0, LENGTH, 4):
            r = self.paths(*args, "--comm.route_within", str(within), where=str(within))
            self.assertEqual(r.returncode, 0, r.stderr)
            losses[within] = float(re.search(r"validation loss ([0-9.]+)", r.stdout)[1])
        self.assertEqual(losses[LENGTH], losses[0])  # a sequence is one piece
        self.assertLess(losses[4], losses[0] - 0.05)
        self.assertEqual(self.checkpoint("0", 1, 60), self.checkpoint("4", 1, 60))  # only judged otherwise
        first, other = (self.sequence(random.Random(9), kind) for kind in (0, 2))
        g = subprocess.run(self.command("--comm.route_within", "2", "--prompt", first + other, command="generate", where="4"),
                           capture_output=True, text=True, errors="replace", timeout=60)
        self.assertEqual(g.returncode, 0, g.stderr)
        self.assertGreater(len(g.stdout), 2 * LENGTH)
        self.assertGreaterEqual(len(re.findall(r"^path \d of 4$", g.stderr, re.M)), 2)  # the prompt's end is of another kind

    def test_a_sequence_goes_where_the_document_goes_that_it_begins_in(self):
        """What documents begin with says their kind; what they end with is alike. Sequences begin anywhere."""
        chance, lines = random.Random(6), os.path.join(self.dir, "text.jsonl")
        kinds = [chance.choice([0, 0, 1]) for _ in range(600)]
        with open(lines, "w") as f:
            for kind in kinds:
                begin = "".join(chance.choice(["ab", "17"][kind]) for _ in range(18))
                f.write(json.dumps({"text": begin + " and so on"[:chance.randint(3, 10)]}) + "\n")
        r = self.run_it("--preset", "dipaco", "--peers", "2", "--comm.paths", "2", "--steps", "10", "--data.path", lines, "--data.tokenizer", "bpe",
                        "--data.vocabulary", "257")  # bytes, and the token between documents
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(os.path.join(self.dir, "runs", "causeway", "tokens.bin"), "rb") as f:
            tokens = array.array("H", f.read()[1024:])
        self.assertEqual(tokens.count(256), len(kinds))
        trained = (len(tokens) - int(len(tokens) * 0.05) - 1) // LENGTH
        begins_in = [kinds[tokens[:i * LENGTH].count(256)] for i in range(trained)]
        self.assertEqual(sorted(self.shards(r.stdout)[0]), sorted([begins_in.count(0), begins_in.count(1)]))

    def test_peers_that_come_and_go_train_the_documents_of_the_paths_that_they_are_given(self):
        """Who gets which path is not known before: documents of the wrong kind would show in the loss."""
        losses, args = {}, ["--steps", "60", "--comm.route_prefix", "8"]
        for fault in ("fail_stop", "quorum"):
            r = self.paths(*args, "--fault.policy", fault, where=fault)
            self.assertEqual(r.returncode, 0, r.stderr)
            losses[fault] = float(re.search(r"validation loss ([0-9.]+)", r.stdout)[1])
        self.assertLess(losses["quorum"], losses["fail_stop"] + 0.2)
        folder = os.path.join(self.dir, "quorum", "causeway")
        paths = {}
        for peer in range(4):
            with open(f"{folder}/peer-{peer}/path") as f:
                paths[int(f.read())] = peer
        self.assertEqual(sorted(paths), [0, 1, 2, 3])
        writers = [self.writer("--fault.policy", "quorum", "--prompt", self.sequence(random.Random(9), kind), where="quorum") for kind in range(4)]
        self.assertEqual(sorted(writers), [0, 1, 2, 3])
        os.remove(f"{folder}/peer-{paths[2]}/path")
        g = subprocess.run(self.command("--fault.policy", "quorum", "--prompt", "x", "--sample.path", "2", command="generate", where="quorum"),
                           capture_output=True, text=True, errors="replace", timeout=60)
        self.assertIn("no folder of a peer that trained path 2", g.stderr)

    def test_peers_with_stages_that_come_and_go_train_a_path_each(self):
        """They judge the texts of all paths, and the blocks that they save have all of them."""
        def run(name, *shape):
            args = ["--preset", "dipaco", "--comm.paths", "2", "--steps", "60", "--comm.route_prefix", "8", *shape]
            r = self.run_it(*args, where=name)
            self.assertEqual(r.returncode, 0, r.stderr)
            return float(re.search(r"validation loss ([0-9.]+)", r.stdout)[1]), args

        whole, _ = run("data", "--peers", "2")
        for policy in ("pipeline", "swarm"):
            with self.subTest(policy):
                loss, args = run(policy, "--peers", "4", "--parallel.policy", policy, "--train.micro_batches", "2", "--train.batch", "8", "--fault.policy", "quorum")
                self.assertLess(loss, whole + 0.1)
                self.writes_on_each_path(args, policy)
                self.fails(self.run_it(*args, "--train.micro_batches", "1", where="other"), "invalid_argument", "train.micro_batches")

    def writes_on_each_path(self, args, where):
        written = [subprocess.run(self.command(*args, "--prompt", "x", "--sample.tokens", "60", "--sample.path", str(path), command="generate", where=where),
                                  capture_output=True, text=True, errors="replace", timeout=60) for path in (0, 1)]
        for path, g in enumerate(written):
            self.assertEqual(g.returncode, 0, g.stderr)
            self.assertIn(f"path {path} of 2", g.stderr)
        of_first_kind = sorted(sum(c in "sea" for c in g.stdout) for g in written)  # whose texts go one way
        self.assertGreater(of_first_kind[1], of_first_kind[0] + 20)

    def export(self, *args):
        return subprocess.run([PROGRAM, "export", os.path.join(self.dir, "out"), "--run.directory", os.path.join(self.dir, "runs"), *args],
                              capture_output=True, text=True, timeout=60)

    def test_a_path_is_exported_by_its_number(self):
        self.assertEqual(self.paths("--steps", "10").returncode, 0)
        self.fails(self.export(), "invalid_argument", "--sample.path 0 to 3")
        self.assertEqual(self.export("--sample.path", "2").returncode, 0)
        self.fails(self.export("--sample.path", "4"), "invalid_argument", "sample.path")

    def test_a_router_sorts_anew_and_an_interrupted_run_ends_with_the_same_bits(self):
        """Five peers: path 0 has two of them, which share its documents."""
        args = ["--preset", "dipaco", "--peers", "5", "--comm.paths", "2,2", "--comm.route_top", "2", "--comm.route_again", "40",
                "--steps", "160", "--train.evaluate_every", "10"]
        whole = self.run_it(*args, where="whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(len(self.shards(whole.stdout)), 4)  # at the beginning, and after 40, 80 and 120 steps
        for shards in self.shards(whole.stdout):  # each sequence is in two
            self.assertGreaterEqual(sum(shards), 2 * 379)
        with open(os.path.join(self.dir, "whole", "causeway", "peer-0", "metrics.jsonl")) as f:
            losses = [json.loads(line)["validation_loss"] for line in f if '"validation_loss"' in line]
        self.assertLess(losses[-1], losses[0] - 0.5)
        p = subprocess.Popen(self.command(*args, where="cut"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for line in p.stdout:
            if line.startswith("step 60"):
                p.send_signal(signal.SIGINT)
                break
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)
        r = self.run_it(*args, where="cut")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("resuming at step", r.stdout)
        for peer in range(5):
            self.assertEqual(self.checkpoint("whole", peer, 160), self.checkpoint("cut", peer, 160))

    def test_paths_that_cannot_be_say_so(self):
        for args, what in [(["--comm.paths", "3,2"], "comm.paths"), (["--comm.paths", "0"], "comm.paths"), (["--comm.paths", "1,2,2"], "comm.paths"),
                           (["--comm.route_top", "5"], "comm.route_top"), (["--comm.route_again", "15"], "comm.route_again"),
                           (["--comm.route_prefix", "0"], "comm.route_prefix"), (["--parallel.policy", "pipeline"], "parallel.policy"),
                           (["--fault.policy", "quorum", "--comm.route_again", "20"], "comm.route_again")]:
            with self.subTest(args):
                self.fails(self.run_it("--preset", "dipaco", "--peers", "4", *args), "invalid_argument", what)


if __name__ == "__main__":
    unittest.main()
