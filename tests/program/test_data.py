#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data into the program: python3 tests/program/test_data.py build/dev/bin/causeway."""
import array, json, os, re, shutil, signal, struct, subprocess, unittest

from support import PROGRAM, SMALL, Program, until, words

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GPT2 = os.path.join(ROOT, "tests", "golden", "formats", "tokenizers", "gpt2")
LLAMA3 = os.path.join(ROOT, "tests", "golden", "formats", "tokenizers", "llama3")
CHUNK = 60 * 1024  # in which tokens are sent
SHORT = ["--steps", "2", "--sample.tokens", "2", "--train.evaluate_tokens", "256"]


def shard(tokens, width=2):
    magic, version = (20240520, 1) if width == 2 else (20240801, 7)
    return struct.pack("<256i", magic, version, len(tokens), *[0] * 253) + array.array("HI"[width == 4], list(tokens)).tobytes()


def tokens_in(path):
    with open(path, "rb") as f:
        blob = f.read()
    magic, _, count = struct.unpack("<3i", blob[:12])
    return list(struct.unpack(f"<{count}{'HI'[magic == 20240801]}", blob[1024:]))


class Data(Program):
    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def put(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        return path

    def train(self, data, *args, where="runs"):
        return self.run_it("--data.path", data, *SHORT, *args, where=where)

    def works(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def cut(self, data, *args, where="runs"):
        """The tokens that a run makes of some data."""
        self.works(self.train(data, *args, where=where))
        return tokens_in(self.path(where, "causeway", "tokens.bin"))

    def tokenize(self, *args):
        return subprocess.run([PROGRAM, "tokenize", *args], capture_output=True, text=True, errors="replace", timeout=120)

    def losses(self, where):
        with open(self.path(where, "causeway", "peer-0", "metrics.jsonl")) as f:
            return [line["loss"] for line in map(json.loads, f) if line["kind"] == "step"]


class Text(Data):
    def test_a_folder_is_read_in_the_order_of_its_paths(self):
        a, b = words(300), words(400).strip()
        self.put("in/x/b.txt", b)
        self.put("in/a.txt", a)
        self.put("in/.hidden.txt", "hidden " * 100)
        self.put("in/picture.png", b"\x89PNG")
        self.assertEqual(bytes(self.cut(self.path("in"))), (a + "\n" + b).encode())
        both = self.path("in", "x", "b.txt") + "," + self.path("in", "a.txt")
        self.assertEqual(bytes(self.cut(both, where="other")), (b + "\n\n" + a).encode())

    def test_json_lines_are_documents_and_say_which_line_is_bad(self):
        one, two = words(300), words(400) + "é"
        lines = json.dumps({"id": 1, "body": one}) + "\n\n" + json.dumps({"body": two}) + "\n"
        path = self.put("d.jsonl", lines)
        self.assertEqual(bytes(self.cut(path, "--data.field", "body")), (one + "\n" + two).encode())
        self.fails(self.train(path, where="a"), "corrupt", "d.jsonl, line 1", "it has: id, body", "data.field")
        self.put("d.jsonl", lines + '{"body": "x"')
        self.fails(self.train(path, "--data.field", "body", where="b"), "corrupt", "d.jsonl, line 4")

    def test_an_end_of_text_stands_behind_each_document_where_the_tokenizer_has_one(self):
        documents = [words(300 + 20 * i).strip() for i in range(7)]
        path = self.put("d.jsonl", "".join(json.dumps({"text": d}) + "\n" for d in documents))
        bpe = ["--data.tokenizer", "bpe", "--data.vocabulary", "257"]  # the bytes, and one token more
        tokens = self.cut(path, *bpe)
        self.assertEqual(tokens, [t for d in documents for t in [*d.encode(), 256]])
        for i, d in enumerate(documents):
            self.put(f"in/{i}.txt", d)
        self.assertEqual(self.cut(self.path("in"), *bpe, where="b"), tokens)
        alone = self.cut(self.put("in.txt", words(500)), *bpe, where="c")
        self.assertEqual(alone[-1], ord("\n"))
        self.assertIn(256, alone)  # joins two letters: one text has no end

    def test_special_tokens_are_taken_from_text_only_where_asked_for(self):
        text = words(300) + "<|endoftext|>" + words(300) + "<|endoftext|> <|eot_id|>\n"
        path = self.put("in.txt", text)
        llama3 = ["--data.tokenizer", LLAMA3]
        plain, taken = self.cut(path, *llama3), self.cut(path, *llama3, "--special", where="b")
        self.assertEqual([t for t in plain if t >= 420], [421])  # behind the text
        self.assertEqual([t for t in taken if t >= 420], [422, 421])
        again = self.cut(path, *llama3, "--special", "false", "--run.fresh", where="b")
        self.assertEqual(again, plain)
        out = self.path("tokens")
        self.works(self.tokenize(path, out, "--tokenizer", LLAMA3, "--special", "true"))
        self.assertEqual(tokens_in(os.path.join(out, "train_000000.bin")), taken)
        self.fails(self.train(path, "--special", where="c"), "invalid_argument", "data.special", "no special tokens")

    def test_prompts_have_special_tokens_only_where_asked_for(self):
        self.works(self.train(self.text, "--data.tokenizer", LLAMA3))

        def generated(*args):
            r = self.works(subprocess.run([PROGRAM, "generate", "--run.directory", self.path("runs"), "--prompt", "a<|eot_id|>b", "--sample.tokens", "30",
                                           "--temperature", "1", "--top-k", "0", *args], capture_output=True, text=True, timeout=120))
            return r.stdout

        self.assertEqual(generated()[:12], "a<|eot_id|>b")
        self.assertEqual(generated("--special")[:12], "a<|eot_id|>b")
        self.assertEqual(generated(), generated())
        self.assertNotEqual(generated(), generated("--special"))  # other tokens go on otherwise

    def test_validation_can_have_files_of_its_own(self):
        path = self.put("train.txt", words(2000))
        r = self.works(self.train(path, "--data.validation_path", self.put("other.txt", words(300))))
        self.assertRegex(r.stdout, rf"{len(words(2000))} tokens to train on, {len(words(300))} to validate")
        self.put("j/train.jsonl", json.dumps({"text": words(1000)}))
        self.put("j/validation.jsonl", json.dumps({"text": words(200)}))
        r = self.works(self.train(self.path("j"), where="b"))
        self.assertRegex(r.stdout, rf"{len(words(1000))} tokens to train on, {len(words(200))} to validate")
        self.fails(self.train(path, "--data.validation_path", self.path("j"), where="c"), "invalid_argument", "data.validation_path", "kind")
        self.fails(self.train(path, "--data.validation_path", self.put("tiny.txt", "x"), where="d"), "bad_text", "1 for validation")

    def test_what_cannot_be_trained_on_is_said(self):
        os.mkdir(self.path("empty"))
        self.fails(self.train(self.path("empty")), "not_found", "holds no training data", "*.jsonl")
        self.put("mixed/a.txt", "x")
        self.put("mixed/b.jsonl", "{}")
        self.fails(self.train(self.path("mixed")), "unsupported", "a.txt and ", "b.jsonl", "separated by commas")
        self.fails(self.train(self.text + "," + self.path("gone")), "not_found", "gone")
        self.fails(self.train(self.put("none.jsonl", "\n\n")), "bad_text", "empty")

    def test_a_tokenizer_that_changed_cuts_the_text_anew(self):
        folder = self.path("tokenizer")
        shutil.copytree(GPT2, folder)
        first = self.cut(self.text, "--data.tokenizer", folder)
        kept = os.stat(self.path("runs", "causeway", "tokens.bin")).st_mtime_ns
        self.assertEqual(self.cut(self.text, "--data.tokenizer", folder), first)
        self.assertEqual(os.stat(self.path("runs", "causeway", "tokens.bin")).st_mtime_ns, kept)
        shutil.rmtree(folder)
        shutil.copytree(LLAMA3, folder)
        shutil.rmtree(self.path("runs", "causeway", "peer-0"))  # what it has learned is of the other one
        again = self.cut(self.text, "--data.tokenizer", folder)
        self.assertNotEqual(again, first)
        self.assertEqual(again, self.cut(self.text, "--data.tokenizer", folder, where="fresh"))

    def test_a_run_goes_on_without_the_folder_of_its_tokenizer(self):
        folder = self.path("tokenizer")
        shutil.copytree(GPT2, folder)
        self.works(self.train(self.text, "--data.tokenizer", folder))
        shutil.rmtree(folder)
        kept = self.path("runs", "causeway", "settings.toml")
        self.works(subprocess.run([PROGRAM, "train", "@" + kept, "--run.directory", self.path("runs"), "--data.path", self.text],
                                  capture_output=True, text=True, timeout=120))
        self.fails(self.train(self.text, "--data.tokenizer", folder), "invalid_argument", "data.tokenizer", "is no folder")
        self.fails(self.train(self.text, "--data.tokenizer", "folder", where="other"), "not_found", "--data.tokenizer DIR")


class Joined(Data):
    """A peer that has no data, in the run of one that has."""

    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGINT)  # a launcher ends its peers, too
            try:
                p.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
        super().tearDown()

    def start(self, command):
        self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"))
        return self.processes[-1]

    def host(self, *args):
        host = self.start(self.command(*SHORT, "--listen", "127.0.0.1:0", "--peers", "2", "--threads", "1", *args))
        for line in host.stdout:
            if match := re.match(r" *causeway join (\S+)$", line):
                return host, match[1]
        self.fail(host.stderr.read())

    def join(self, host, address):
        r = self.works(subprocess.run([PROGRAM, "join", address, "--run.directory", self.path("other"), "--threads", "1"], capture_output=True,
                                      text=True, errors="replace", timeout=90))
        host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0)
        return r


class Shards(Joined):
    def setUp(self):
        super().setUp()
        self.ids = list(words(3000).encode())

    def test_shards_of_both_kinds_are_read_where_they_are(self):
        self.put("s/a_000000.bin", shard(self.ids[:5000]))
        self.put("s/a_000001.bin", shard(self.ids[5000:], width=4))
        self.put("s/README.md", "bytes")
        self.works(self.train(self.path("s")))
        self.assertFalse(os.path.exists(self.path("runs", "causeway", "tokens.bin")))
        self.works(self.train(self.put("t.txt", bytes(self.ids)), where="text"))
        self.assertEqual(self.losses("runs"), self.losses("text"))
        self.works(self.run_it("--data.path", self.path("s"), "--run.directory", self.path("runs"), "--sample.tokens", "4", "--steps", "3"))

    def test_a_pair_of_nanogpt_needs_the_width_of_its_tokens(self):
        pair = self.path("p")
        self.put("p/train.bin", struct.pack(f"<{len(self.ids)}H", *self.ids))
        self.put("p/val.bin", struct.pack("<500H", *self.ids[:500]))
        self.fails(self.train(pair), "unsupported", "train.bin", "data.token_type u16 or u32")
        self.fails(self.train(pair, "--data.token_type", "u8"), "invalid_argument", "data.token_type")
        r = self.works(self.train(pair, "--data.token_type", "u16"))
        self.assertRegex(r.stdout, rf"{len(self.ids)} tokens to train on, 500 to validate")
        r = self.works(self.train(self.path("p", "val.bin"), "--data.token_type", "u16", "--data.validation", "0.1", where="b"))
        self.assertRegex(r.stdout, "450 tokens to train on, 50 to validate")

    def test_bad_files_are_refused_by_name(self):
        good = shard(self.ids)
        for name, content, code, *parts in [("short.bin", good[:600], "corrupt", "header"), ("torn.bin", good[:-2], "corrupt", "promises"),
                                            ("long.bin", good + b"\0\0", "corrupt", "promises"), ("half.bin", good[:-1], "corrupt", "part of one"),
                                            ("version.bin", good[:4] + b"\2\0\0\0" + good[8:], "version_mismatch", "version 2"),
                                            ("eval.bin", struct.pack("<i", 20240522) + good[4:], "corrupt", "not a token shard"),
                                            ("large.bin", shard(self.ids[:-1] + [256]), "bad_text", f"token {len(self.ids) - 1}", "256"),
                                            ("empty.bin", shard([]), "bad_text", "too short")]:
            with self.subTest(name):
                self.put("s/a.bin", good) if name != "empty.bin" else None
                where = self.put("s/" + name, content)
                given = where if name == "empty.bin" else self.path("s")
                self.fails(self.train(given), code, name, *parts)
                os.remove(where)
        self.fails(self.train(self.put("odd.bin", b"abc"), "--data.token_type", "u16"), "corrupt", "odd.bin", "whole number")

    def test_a_trained_tokenizer_makes_no_sense_of_tokens(self):
        path = self.put("s/a.bin", shard(self.ids))
        self.fails(self.train(path, "--data.tokenizer", "bpe"), "invalid_argument", "data.tokenizer", "--data.tokenizer DIR")

    def test_a_joiner_gets_the_tokens_and_those_for_validation(self):
        self.put("s/train_0.bin", shard(self.ids[:5000]))
        self.put("s/train_1.bin", shard(self.ids[5000:]))
        self.put("s/val_0.bin", shard(self.ids[:700]))
        self.join(*self.host("--data.path", self.path("s")))
        self.assertEqual(tokens_in(self.path("other", "causeway", "tokens.bin")), self.ids)
        self.assertEqual(tokens_in(self.path("other", "causeway", "validation.bin")), self.ids[:700])

    def test_a_joiner_fetches_only_what_has_not_come_yet(self):
        ids = list(words(400000).encode())
        image = shard(ids)
        self.assertGreater(len(image), 40 * CHUNK)
        host, address = self.host("--data.path", self.put("s.bin", image))
        torn = bytearray(image[:30 * CHUNK + 1000])  # cut in a chunk, and the first one is not what it should be
        torn[5000] ^= 1
        part = self.put("other/causeway/tokens.bin.part", torn)
        r = self.join(host, address)
        self.assertIn(f"fetching {(len(image) - 29 * CHUNK) / 1e6:.1f} MB of the text ({len(image) / 1e6:.1f} MB)", r.stdout)
        self.assertEqual(tokens_in(self.path("other", "causeway", "tokens.bin")), ids)
        self.assertFalse(os.path.exists(part))


class WhileItTrains(Joined):
    """Who joins a run of changing peers has its tokens sent while it trains."""

    def setUp(self):
        super().setUp()
        text = words(800000).encode() * 6
        tokens = bytearray(2 * len(text))
        tokens[::2] = text
        self.image = shard([])[:8] + struct.pack("<i", len(text)) + bytes(1012) + tokens
        self.put("s/train.bin", self.image)
        self.put("s/val.bin", shard(text[:2000000]))

    QUORUM = ["--fault.policy", "quorum", "--comm.policy", "diloco", "--comm.local_steps", "2"]

    def start_joiner(self, address, *args):
        return self.start([PROGRAM, "join", address, "--run.directory", self.path("other"), "--threads", "1", *args])

    def on_disk(self):
        """The chunks that the joiner has."""
        with open(self.path("other", "causeway", "tokens.bin.part"), "rb") as f:
            blob = f.read()
        self.assertEqual(len(blob), len(self.image))
        return {i for i in range(len(blob) // CHUNK) if blob[i * CHUNK:(i + 1) * CHUNK] == self.image[i * CHUNK:(i + 1) * CHUNK]}

    def rounds(self, where="other", peer=0):
        try:
            with open(self.path(where, "causeway", f"peer-{peer}", "rounds.jsonl")) as f:
                return sum(line.endswith("}\n") for line in f)
        except FileNotFoundError:
            return 0

    def state(self, where):
        with open(self.path(where, "causeway", "peer-0", "result.json")) as f:
            return json.load(f)["state"]

    def test_only_what_a_peer_comes_to_is_sent(self):
        r = self.join(*self.host("--data.path", self.path("s"), *self.QUORUM, "--steps", "8"))
        self.assertIn("comes from other peers while this one trains", r.stdout)
        self.assertFalse(os.path.exists(self.path("other", "causeway", "tokens.bin")))
        here = self.on_disk()
        self.assertGreater(len(here), 4)
        self.assertLess(len(here), len(self.image) / CHUNK / 4)
        self.assertEqual(self.state("runs"), self.state("other"))

    def test_who_comes_back_goes_on_with_what_is_here(self):
        host, address = self.host("--data.path", self.path("s"), *self.QUORUM, "--steps", "1000000")
        joiner = self.start_joiner(address)
        until(lambda: self.rounds() > 1, joiner)
        joiner.send_signal(signal.SIGINT)
        joiner.communicate(timeout=60)
        self.assertEqual(joiner.returncode, 130)
        before = self.on_disk()
        again = self.start_joiner(address)
        seen = self.rounds()
        until(lambda: self.rounds() > seen + 1, again)
        again.send_signal(signal.SIGINT)
        again.communicate(timeout=60)
        self.assertLess(before, self.on_disk())

    def test_others_have_them_too(self):
        run = self.start(self.command("--data.path", self.path("s"), *SHORT, *self.QUORUM, "--peers", "2", "--steps", "1000000", "--threads", "1"))
        until(lambda: self.rounds("runs") > 1, run)
        with open(self.path("runs", "causeway", "peer-0", "address")) as f:
            address, pid = f.read().split()[:2]
        joiner = self.start_joiner(address)
        until(lambda: self.rounds() > 0, joiner)
        os.kill(int(pid), signal.SIGKILL)
        before, seen = len(self.on_disk()), self.rounds()
        until(lambda: self.rounds() > seen + 4 and len(self.on_disk()) > before + 4, joiner)

    def test_peers_that_hold_stages_fetch_them_too(self):
        for policy in ("swarm", "pipeline"):
            with self.subTest(policy):
                run = self.start(self.command("--data.path", self.path("s"), *SHORT, "--fault.policy", "quorum", "--comm.policy", "every_step",
                                              "--parallel.policy", policy, "--peers", "2", "--steps", "1000000", "--threads", "1", where="runs_" + policy))
                until(lambda: self.rounds("runs_" + policy) > 1, run)
                with open(self.path("runs_" + policy, "causeway", "peer-0", "address")) as f:
                    address = f.read().split()[0]
                joiner = self.start_joiner(address)
                until(lambda: self.rounds() > 2, joiner)
                self.assertGreater(len(self.on_disk()), 4)
                for p in (joiner, run):
                    p.send_signal(signal.SIGINT)
                    _, errors = p.communicate(timeout=60)
                    self.assertEqual(p.returncode, 130, errors)
                shutil.rmtree(self.path("other"))

    def test_where_nobody_has_them_that_is_said(self):
        host, address = self.host("--data.path", self.path("s"), *self.QUORUM, "--steps", "1000000")
        joiner = self.start_joiner(address)
        until(lambda: self.rounds() > 0, joiner)
        for p in (joiner, host):
            p.kill()
            p.wait()
        with open(self.path("other", "causeway", "validation.bin.part"), "r+b") as f:
            f.seek(CHUNK)
            f.write(bytes(os.path.getsize(f.name) - CHUNK))  # a disk that lost what came
        again = self.start_joiner(address, "--net.patience", "1")
        _, errors = again.communicate(timeout=100)
        self.assertEqual(again.returncode, 1)
        self.assertIn("no peer has sent any for 1 seconds", errors)
        self.assertIn("--data.path", errors)


class Tokenize(Data):
    def test_shards_are_what_a_run_would_cut_itself(self):
        for i in range(3):
            self.put(f"in/{i}.txt", words(700 + i))
        for tokenizer in (["bytes"], ["bpe", "--data.vocabulary", "300"], [GPT2]):
            name = os.path.basename(tokenizer[0])
            out = self.path("out_" + name)
            with self.subTest(name):
                r = self.works(self.tokenize(self.path("in"), out, "--tokenizer", *tokenizer, "--data.shard_tokens", "1000"))
                files = sorted(f for f in os.listdir(out) if f.endswith(".bin"))
                self.assertEqual(files, [f"train_{i:06}.bin" for i in range(len(files))])
                parts = [tokens_in(os.path.join(out, f)) for f in files]
                self.assertTrue(all(len(p) == 1000 for p in parts[:-1]) and len(parts) > 1)
                tokens = [t for p in parts for t in p]
                self.assertRegex(r.stdout, rf"train: {len(tokens)} tokens of .* in {len(files)} files of .*tokens/s")
                self.assertEqual(tokens, self.cut(self.path("in"), "--data.tokenizer", *tokenizer, where="text_" + name))
                small = [a for a in SMALL if a not in ("--data.tokenizer", "bytes")]
                self.works(subprocess.run([PROGRAM, "train", "--run.directory", self.path("shards_" + name), "--data.path", out, *small, *SHORT],
                                          capture_output=True, text=True, timeout=120))  # with the tokenizer that lies there
                self.assertEqual(self.losses("shards_" + name), self.losses("text_" + name))

    def test_any_number_of_threads_gives_the_same_tokens(self):
        text = words(200000)
        for i in range(4):  # files of several pieces each, and small ones, that begin and end as they like
            self.put(f"in/{i}.txt", text[i * 50:i * 50 + 700000] + ("\n" if i % 2 else ""))
            self.put(f"in/{i}_small.txt", text[:40 + i])
        for tokenizer in (["bytes"], ["bpe", "--data.vocabulary", "300"], [GPT2]):
            shards = []
            for threads in ("1", "2", "5"):
                out = self.path(f"out_{os.path.basename(tokenizer[0])}_{threads}")
                r = self.works(self.tokenize(self.path("in"), out, "--tokenizer", *tokenizer, "--threads", threads))
                self.assertEqual("threads at work on average" in r.stdout, threads != "1")
                with open(os.path.join(out, "train_000000.bin"), "rb") as f:
                    shards.append(f.read())
            self.assertGreater(len(shards[0]), 1000000 if tokenizer == ["bytes"] else 100000)
            self.assertTrue(shards[0] == shards[1] == shards[2], tokenizer)

    def test_validation_comes_along(self):
        self.put("j/train.jsonl", json.dumps({"text": words(1000)}))
        self.put("j/val.jsonl", json.dumps({"text": words(200)}))
        self.works(self.tokenize(self.path("j"), self.path("out"), "--tokenizer", "bytes"))
        self.assertEqual(bytes(tokens_in(self.path("out", "val_000000.bin"))), words(200).encode())
        r = self.works(self.train(self.path("out")))
        self.assertRegex(r.stdout, rf"{len(words(1000))} tokens to train on, {len(words(200))} to validate")

    def test_what_cannot_be_done_is_said_and_leaves_nothing(self):
        out = self.path("out")
        self.fails(self.tokenize(self.text), "invalid_argument", "causeway tokenize IN OUT")
        self.fails(self.tokenize(self.path("none"), out), "not_found", "none")
        self.fails(self.tokenize(self.put("bad.txt", b"good\n" * 400000 + b"\xff"), out, "--tokenizer", "bytes"), "bad_text", "UTF-8", "line 400001")
        self.fails(self.tokenize(self.put("s.bin", shard([1])), out, "--tokenizer", "bytes"), "unsupported", "tokens already")
        self.fails(self.tokenize(self.put("empty.txt", ""), out, "--tokenizer", "bytes"), "bad_text", "empty")
        self.assertFalse([f for f in os.listdir(self.dir) if f.startswith("out")])
        self.put("out/mine", "x")
        self.fails(self.tokenize(self.text, out), "invalid_argument", "is there already")
        self.assertEqual(os.listdir(out), ["mine"])

    def test_interrupted_it_leaves_nothing(self):
        out, text = self.path("out"), self.put("a.txt", words(100000))
        p = subprocess.Popen([PROGRAM, "tokenize", ",".join([text] * 1000), out, "--tokenizer", GPT2], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)  # more than is cut before somebody asks it to stop
        self.addCleanup(lambda: p.poll() is None and (p.kill(), p.communicate()))
        until(lambda: any(f.startswith("train_") for f in (os.listdir(out + ".unfinished") if os.path.isdir(out + ".unfinished") else [])), p)
        p.send_signal(signal.SIGINT)
        _, errors = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, errors)
        self.assertFalse([f for f in os.listdir(self.dir) if f.startswith("out")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
