#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/how_to/fine_tune.md, command by command as the page has them, with tiny random models in place of the download:
python3 tests/program/test_fine_tune.py build/dev/bin/causeway."""
import importlib.util, json, os, random, re, shlex, shutil, struct, subprocess, sys, unittest
from pathlib import Path

from support import PROGRAM, Program, until, words
import markdown_text  # from tools/, as support.py arranges

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GOLDEN = os.path.join(ROOT, "tests", "golden", "formats")
CONTEXT = 256
LESS = {"CAUSEWAY_TRAIN_EVALUATE_TOKENS": "1024", "CAUSEWAY_SAMPLE_TOKENS": "8", "CAUSEWAY_NET_THREADS": "1"}


def commands():
    """The page's, in its order; each is one line."""
    with open(os.path.join(ROOT, "docs", "how_to", "fine_tune.md")) as page:
        return [lines[0] if len(lines) == 1 else lines for _, info, lines in markdown_text.blocks(page.read()) if info == "sh"]


def tensors(path):
    """Name, shape and values of each tensor of F32 in a safetensors file."""
    with open(path, "rb") as f:
        blob = f.read()
    length, = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + length])
    header.pop("__metadata__", None)
    for name, t in header.items():
        assert t["dtype"] == "F32", t
        begin, end = (8 + length + o for o in t["data_offsets"])
        yield name, t["shape"], struct.unpack(f"<{(end - begin) // 4}f", blob[begin:end])


def write_tensors(path, all_):
    header, data = {}, b""
    for name, shape, values in all_:
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def tiny(folder, family, tokenizer, vocabulary):
    """A model as transformers saved one, but with random weights for another vocabulary and context."""
    source = os.path.join(GOLDEN, family)
    with open(os.path.join(source, "config.json")) as f:
        config = json.load(f)
    config["vocab_size"] = vocabulary
    config["n_positions" if family == "gpt2" else "max_position_embeddings"] = CONTEXT
    draw, made = random.Random(1), []
    for name, shape, _ in tensors(os.path.join(source, "model.safetensors")):
        if re.search("wte|embed_tokens|lm_head", name):
            shape = [vocabulary, shape[1]]
        elif "wpe" in name:
            shape = [CONTEXT, shape[1]]
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        is_scale = re.search(r"(ln_\w|norm|layernorm)\.weight$", name)
        made.append((name, shape, [1.0] * size if is_scale else [0.0] * size if name.endswith(".bias") else [draw.gauss(0, 0.02) for _ in range(size)]))
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    write_tensors(os.path.join(folder, "model.safetensors"), made)
    shutil.copy(os.path.join(GOLDEN, "tokenizers", tokenizer, "tokenizer.json"), folder)


class FineTune(Program):
    def setUp(self):
        super().setUp()
        self.started = []
        os.mkdir(os.path.join(self.dir, "first"))
        os.mkdir(os.path.join(self.dir, "second"))
        os.mkdir(os.path.join(self.dir, "first", "texts"))
        for name in ("one.txt", "two.txt"):
            with open(os.path.join(self.dir, "first", "texts", name), "w") as f:
                f.write(words(6000))
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.wait(60)

    def start(self, machine, command):
        line = shlex.split(command)
        self.assertEqual(line[0], "causeway")
        output = open(os.path.join(self.dir, f"output-{len(self.started)}"), "w+", errors="replace")
        self.addCleanup(output.close)
        process = subprocess.Popen([PROGRAM, *line[1:]], cwd=os.path.join(self.dir, machine), env={**os.environ, **LESS}, stdout=output,
                                   stderr=subprocess.STDOUT)
        process.said = lambda: Path(output.name).read_text(errors="replace")
        self.started.append(process)
        return process

    def do(self, machine, command):
        return self.ends(self.start(machine, command))

    def ends(self, process):
        process.wait(180)
        self.assertEqual(process.returncode, 0, process.said())
        return process.said()

    def follow_the_page(self, family, tokenizer, vocabulary):
        download, train, generate, together, join, export, load = commands()
        base, tuned = (os.path.join(self.dir, "first", name) for name in ("base", "tuned"))
        self.assertTrue(download.startswith("hf download ") and download.endswith(" --local-dir base"))
        tiny(base, family, tokenizer, vocabulary)

        said = self.do("first", train)
        validations = [float(v) for v in re.findall(r"validation loss (\d+\.\d+)", said)]
        self.assertTrue(validations, said)
        self.assertLess(validations[-1], 6)  # a random model's is 6.04: the logarithm of its vocabulary
        self.assertTrue(self.do("first", generate).startswith("Once upon a time"))

        here, there = "--listen 127.0.0.1:0", "192.168.1.5:29500"
        self.assertIn("--listen 0.0.0.0:29500", together)
        host = self.start("first", together.replace("--listen 0.0.0.0:29500", here))
        line = lambda: re.search(r"causeway join (127\.0\.0\.1:\d+)", host.said())
        until(line, host)
        self.assertIn(there, join)
        second = self.start("second", join.replace(there, line()[1]))
        for process in (host, second):
            self.ends(process)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "second", "base")))

        self.do("first", export)
        self.assertLessEqual({"config.json", "model.safetensors", "tokenizer.json"}, set(os.listdir(tuned)))
        before, after = ({name: (shape, values) for name, shape, values in tensors(os.path.join(f, "model.safetensors"))} for f in (base, tuned))
        self.assertEqual({n: s for n, (s, _) in before.items()}, {n: s for n, (s, _) in after.items()})
        moved = max(abs(a - b) for name in before for a, b in zip(before[name][1], after[name][1]))
        self.assertTrue(1e-4 < moved < 0.1, moved)  # it began there, and went on
        if all(map(importlib.util.find_spec, ("torch", "transformers"))):
            r = subprocess.run([sys.executable, *shlex.split(load)[1:]], cwd=os.path.join(self.dir, "first"), capture_output=True, text=True, timeout=300)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("Once upon a time", r.stdout)
        else:
            print("left out, since torch and transformers are not installed: " + load)

    def test_each_command_of_the_page_with_a_gpt2(self):
        self.follow_the_page("gpt2", "gpt2", 421)

    def test_each_command_of_the_page_with_a_llama(self):
        self.follow_the_page("llama", "llama3", 424)


if __name__ == "__main__":
    unittest.main(verbosity=2)
