#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models in and out of the program: python3 tests/program/test_formats.py build/dev/bin/causeway. What needs transformers is
left out where it is not installed (pip install torch transformers)."""
import json, os, re, shutil, subprocess, unittest

from support import PROGRAM, Program

try:
    import torch, transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
except ImportError as missing:
    transformers, why_not = None, f"{missing}; pip install torch transformers"
else:
    why_not = ""

BPE = ["--data.tokenizer", "bpe", "--data.vocabulary", "290"]
LLAMA = ["--model.family", "llama", "--model.heads", "4", "--model.kv_heads", "2"]
STILL = ["--train.learning_rate", "1e-30", "--train.weight_decay", "0", "--steps", "1"]


class Formats(Program):
    def setUp(self):
        super().setUp()
        with open(self.text, "a") as f:  # what is hard to cut into the same pieces
            f.write(" naïve café — “quoted” it's they've\n\n  tabs\t\tand    blanks 'round " + "12" * 40 + " " + "é" * 100 + " " +
                    "ab" * 70 + " " * 150 + "x" + "!" * 99 + "日本語" * 30 + "\n")
        self.out = os.path.join(self.dir, "out")

    def run_on(self, command, *args, where="runs"):
        """The program with nothing but these arguments and a folder of runs."""
        return subprocess.run([PROGRAM, command, *args, "--run.directory", os.path.join(self.dir, where)], capture_output=True, timeout=120,
                              text=True, errors="replace")

    def works(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def export(self, *args, where="runs", out=None):
        return self.works(self.run_on("export", out or self.out, *args, where=where))

    def start(self, *args, where="next", init=None):
        return self.run_on("train", "--model.init", init or self.out, "--data.path", self.text, "--train.batch", "4",
                           "--train.evaluate_tokens", "1024", "--sample.tokens", "8", *args, where=where)

    def losses(self, where):
        with open(os.path.join(self.dir, where, "causeway", "peer-0", "metrics.jsonl")) as f:
            return [line["loss"] for line in map(json.loads, f) if line["kind"] == "step"]

    def file(self, name, folder=None):
        with open(os.path.join(folder or self.out, name), "rb") as f:
            return f.read()


class InAndOut(Formats):
    def test_a_run_goes_on_from_an_export_with_its_shape_and_its_tokens(self):
        for family in ([], LLAMA):
            with self.subTest(family):
                self.works(self.run_it(*family, *BPE, "--steps", "60", where="first" + "".join(family)))
                said = self.export(where="first" + "".join(family)).stdout
                self.assertIn("tokenizer.json", said)
                where = "next" + "".join(family)
                self.works(self.start("--steps", "3", "--peers", "2", "--comm.policy", "every_step", where=where))
                self.assertLess(self.losses(where)[0], self.losses("first" + "".join(family))[-1] + 0.3)
                shutil.rmtree(self.out)

    def test_what_is_loaded_and_not_trained_is_exported_as_it_was(self):
        self.works(self.run_it("--steps", "5", *LLAMA, *BPE))
        self.export()
        self.works(self.start(*STILL))
        again = os.path.join(self.dir, "again")
        self.export(where="next", out=again)
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            self.assertEqual(self.file(name), self.file(name, again), name)

    def test_stages_start_from_their_part_and_are_exported_together(self):
        self.works(self.run_it("--steps", "5"))
        self.export()
        self.works(self.start(*STILL, "--peers", "2", "--parallel.policy", "pipeline", "--comm.policy", "every_step"))
        again = os.path.join(self.dir, "again")
        self.export(where="next", out=again)
        self.assertEqual(self.file("model.safetensors"), self.file("model.safetensors", again))

    def test_stages_whose_peers_come_and_go_do_too(self):
        self.works(self.run_it("--steps", "5"))
        self.export()
        self.works(self.start(*STILL, "--peers", "2", "--parallel.policy", "pipeline", "--comm.policy", "every_step", "--fault.policy",
                              "quorum"))
        again = os.path.join(self.dir, "again")
        self.export(where="next", out=again)
        self.assertEqual(self.file("model.safetensors"), self.file("model.safetensors", again))

    def test_peers_that_come_and_go_start_from_it_too(self):
        self.works(self.run_it("--steps", "60"))
        self.export()
        self.works(self.start("--steps", "4", "--peers", "2", "--fault.policy", "quorum", "--comm.policy", "every_step"))
        again = os.path.join(self.dir, "again")
        self.export(where="next", out=again)
        self.assertNotEqual(self.file("model.safetensors"), self.file("model.safetensors", again))
        before, after = (self.works(self.start(*STILL, init=f, where=w)) and self.losses(w)[0] for f, w in ((self.out, "a"), (again, "b")))
        self.assertLess(abs(before - after), 0.5)  # a model from a seed begins near 5.5

    def test_a_swarm_starts_from_it_too_tied_or_not(self):
        self.works(self.run_it("--steps", "60"))
        self.export()
        for policy in (["every_step"], ["local_sgd", "--comm.local_steps", "2"]):
            with self.subTest(policy[0]):
                self.works(self.start("--steps", "4", "--peers", "2", "--parallel.policy", "swarm", "--fault.policy", "quorum", "--comm.policy",
                                      *policy, where=policy[0]))
                again = os.path.join(self.dir, policy[0] + "_out")
                self.export(where=policy[0], out=again)
                self.assertEqual(json.loads(self.file("config.json", again))["tie_word_embeddings"], policy[0] == "every_step")
                self.works(self.start(*STILL, init=again, where="after_" + policy[0]))
                self.assertLess(self.losses("after_" + policy[0])[0], 4)

    def test_what_does_not_fit_is_said(self):
        self.works(self.run_it("--steps", "5"))
        self.export()
        self.fails(self.start("--model.layers", "3"), "invalid_argument", "model.layers", "2 in the model", "leave it out")
        self.fails(self.start("--model.context", "64"), "invalid_argument", "model.context", "use 32 or less")
        self.fails(self.start(init=os.path.join(self.dir, "nothing")), "not_found", "config.json", "save_pretrained")
        os.remove(os.path.join(self.out, "tokenizer.json"))
        self.fails(self.start(), "not_found", "tokenizer.json", "--data.tokenizer bytes or bpe")
        self.fails(self.start(*BPE), "wrong_model", "model.vocabulary", "smaller data.vocabulary")
        self.works(self.start("--data.tokenizer", "bytes", "--steps", "2"))
        self.fails(self.run_on("export"), "invalid_argument", "causeway export DIR", "FILE.gguf")
        self.fails(self.run_on("export", self.out, "--dtype", "q8_0"), "invalid_argument", "export.type", "model.gguf")
        self.fails(self.run_on("export", self.out, where="nowhere"), "not_found", "train first")

    def test_other_weights_than_the_run_began_with_are_refused(self):
        self.works(self.run_it("--steps", "5"))
        self.export()
        self.works(self.start("--steps", "4"))
        self.works(self.run_it("--steps", "7", where="other"))
        self.export(where="other")
        self.fails(self.start("--steps", "4"), "wrong_model", "model.start", "--run.fresh")

    def test_a_run_that_was_interrupted_goes_on_without_the_folder_of_its_model(self):
        self.works(self.run_it("--steps", "5"))
        self.export()
        self.works(self.start("--steps", "4"))
        kept = os.path.join(self.dir, "next", "causeway", "settings.toml")
        shutil.rmtree(self.out)
        self.works(self.run_on("train", "@" + kept, "--data.path", self.text, where="next"))


class Joining(Formats):
    """Peers of one run on other machines: with other folders."""

    def host(self, *args):
        self.works(self.run_it("--steps", "60"))
        self.export()
        host = subprocess.Popen([PROGRAM, "train", "--model.init", self.out, "--data.path", self.text, "--run.directory",
                                 os.path.join(self.dir, "next"), "--train.batch", "4", "--sample.tokens", "8", "--train.evaluate_tokens",
                                 "1024", "--peers", "2", "--listen", "127.0.0.1:0", "--comm.policy", "every_step", *args],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        for line in host.stdout:
            if match := re.search(r"causeway join (\S+)", line):
                return host, match[1]
        self.fail(host.stderr.read())

    def join(self, address, *args):
        return self.run_on("join", address, *args, where="other")

    def test_a_peer_needs_the_weights_that_the_run_starts_from(self):
        host, address = self.host("--steps", "3")
        try:
            self.fails(self.join(address), "not_found", "model.init", "every peer must have")
        finally:
            host.kill()
            host.communicate()

    def test_a_copy_of_the_folder_does(self):
        host, address = self.host("--steps", "3")
        copy = os.path.join(self.dir, "copy")
        shutil.copytree(self.out, copy)
        self.works(self.join(address, "--model.init", copy))
        host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0)

    def test_other_weights_are_refused(self):
        host, address = self.host("--steps", "3")
        self.works(self.run_it("--steps", "7", where="wrong"))
        wrong = os.path.join(self.dir, "wrong_out")
        self.export(where="wrong", out=wrong)
        try:
            self.fails(self.join(address, "--model.init", wrong), "wrong_model", "has other weights")
        finally:
            host.kill()
            host.communicate()

    def test_who_joins_a_changing_run_gets_its_state_from_the_others(self):
        host, address = self.host("--steps", "6", "--fault.policy", "quorum")
        self.works(self.join(address))
        host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0)
        again = os.path.join(self.dir, "again")
        self.export(where="next", out=again)
        theirs = os.path.join(self.dir, "theirs")
        self.export(where="other", out=theirs)
        self.assertEqual(self.file("model.safetensors", again), self.file("model.safetensors", theirs))
        self.works(self.start(*STILL, init=again, where="last"))
        self.assertLess(self.losses("last")[0], 4)  # a model from a seed begins near 5.5


@unittest.skipIf(transformers is None, why_not)
class Transformers(Formats):
    """What transformers makes of what we export, and we of what it saves."""

    def tokens_of_run(self, where):
        blob = self.file("tokens.bin", os.path.join(self.dir, where, "causeway"))
        return [int.from_bytes(blob[i:i + 2], "little") for i in range(1024, len(blob), 2)]

    def test_an_export_says_the_same_there(self):
        for family in ([], LLAMA):
            with self.subTest(family):
                where = "first" + "".join(family)
                self.works(self.run_it(*family, *BPE, "--steps", "60", where=where))
                self.export(where=where)
                tokenizer = AutoTokenizer.from_pretrained(self.out)
                with open(self.text, encoding="utf-8") as f:
                    text = f.read()
                self.assertEqual(tokenizer.encode(text), self.tokens_of_run(where))
                self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)
                prompt = "the sea and one"
                ours = self.works(self.run_on("generate", "--prompt", prompt, "--sample.temperature", "0", "--sample.tokens", "12", where=where))
                model = AutoModelForCausalLM.from_pretrained(self.out)
                ids = tokenizer(prompt, return_tensors="pt").input_ids
                theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0)
                self.assertEqual(ours.stdout.rstrip("\n"), tokenizer.decode(theirs[0]).rstrip("\n"))
                shutil.rmtree(self.out)

    def test_a_model_of_theirs_comes_back_as_it_was(self):
        scaled = {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 16}
        torch.manual_seed(3)
        config = LlamaConfig(vocab_size=300, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=scaled)
        model, folder = LlamaForCausalLM(config).eval(), os.path.join(self.dir, "theirs")
        model.save_pretrained(folder)
        self.works(self.start(*STILL, "--data.tokenizer", "bytes", init=folder))
        self.export(where="next")
        back = AutoModelForCausalLM.from_pretrained(self.out).eval()
        tokens = torch.randint(300, (2, 64))
        torch.testing.assert_close(back(tokens).logits, model(tokens).logits, atol=1e-5, rtol=1e-4)

    def test_half_the_size_is_half_the_precision(self):
        self.works(self.run_it("--steps", "3"))
        self.export("--export.type", "bf16")
        model = AutoModelForCausalLM.from_pretrained(self.out, dtype="auto")
        self.assertEqual(model.dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main(verbosity=2)
