#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/prepare_data.py, with stand-ins for the packages that it needs, which are not installed everywhere: a tokenizer that
has a token for each letter, and takes "g" for a special one where it is let, and a data set of a few rows."""
import os, struct, subprocess, sys, tempfile, unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "prepare_data.py")

TOKENIZERS = """
class Encoding:
    def __init__(self, ids): self.ids = ids
class Tokenizer:
    @staticmethod
    def from_file(path):
        if open(path).read() != "letters": raise Exception("odd")
        return Tokenizer()
    encode_special_tokens = False
    def encode_batch(self, batch, add_special_tokens=True):
        assert not add_special_tokens
        return [Encoding([300 if c == "g" and not self.encode_special_tokens else ord(c) for c in text]) for text in batch]
    def get_vocab_size(self): return SIZE
    def token_to_id(self, name): return 300 if name == "<|endoftext|>" else None
"""
DATASETS = """
def load_dataset(name, subset, split, streaming):
    assert (name, subset, split, streaming) == ("rows", None, "train", True)
    return iter([{"id": 1, "text": "abc"}, {"text": ""}, {"text": "é"}, {"text": "defg"}])
"""
MISSING = "raise ImportError('not here')"


class PrepareData(unittest.TestCase):
    def setUp(self):
        self.box = tempfile.TemporaryDirectory()
        self.addCleanup(self.box.cleanup)
        self.tokenizer = self.put("tokenizer.json", "letters")
        self.put("packages/tokenizers.py", TOKENIZERS.replace("SIZE", "301"))
        self.put("packages/datasets.py", DATASETS)
        self.put("packages/pyarrow.py", MISSING)
        self.out = os.path.join(self.box.name, "out")

    def put(self, name, text):
        path = os.path.join(self.box.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def run_it(self, *args):
        environment = {**os.environ, "PYTHONPATH": os.path.join(self.box.name, "packages"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, TOOL, "--tokenizer", self.tokenizer, *args], env=environment, capture_output=True, text=True,
                              timeout=60)

    def fails(self, result, *parts):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertFalse([f for f in os.listdir(self.box.name) if f.startswith("out")])

    def shard(self, name):
        with open(os.path.join(self.out, name), "rb") as f:
            blob = f.read()
        magic, version, count = struct.unpack("<3i", blob[:12])
        self.assertIn((magic, version), [(20240520, 1), (20240801, 7)])
        return list(struct.unpack(f"<{count}{'H' if version == 1 else 'I'}", blob[1024:]))

    def test_documents_become_shards_with_an_end_behind_each(self):
        r = self.run_it(self.out, "--dataset", "rows", "--shard_tokens", "6")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("11 tokens in 2 files", r.stdout)
        self.assertEqual(sorted(os.listdir(self.out)), ["tokenizer.json", "train_000000.bin", "train_000001.bin"])
        self.assertEqual(self.shard("train_000000.bin") + self.shard("train_000001.bin"), [97, 98, 99, 300, 233, 300, 100, 101, 102, 103, 300])
        self.assertFalse([f for f in os.listdir(self.box.name) if "unfinished" in f])

    def test_special_tokens_are_taken_from_text_only_where_asked_for(self):
        self.assertEqual(self.run_it(self.out, "--dataset", "rows", "--special").returncode, 0)
        self.assertEqual(self.shard("train_000000.bin"), [97, 98, 99, 300, 233, 300, 100, 101, 102, 300, 300])

    def test_large_vocabularies_take_four_bytes(self):
        self.put("packages/tokenizers.py", TOKENIZERS.replace("SIZE", "65537"))
        self.assertEqual(self.run_it(self.out, "--dataset", "rows").returncode, 0)
        self.assertEqual(os.path.getsize(os.path.join(self.out, "train_000000.bin")), 1024 + 4 * 11)
        self.assertEqual(self.shard("train_000000.bin")[-1], 300)

    def test_what_is_missing_is_said_with_the_remedy(self):
        self.fails(self.run_it(self.out, "--parquet", "x.parquet"), "pip install pyarrow")
        self.put("packages/datasets.py", MISSING)
        self.fails(self.run_it(self.out, "--dataset", "rows"), "pip install datasets")
        self.put("packages/tokenizers.py", MISSING)
        self.fails(self.run_it(self.out, "--dataset", "rows"), "pip install tokenizers")

    def test_what_does_not_fit_is_said_and_leaves_nothing(self):
        self.fails(self.run_it(self.out, "--dataset", "rows", "--field", "body"), "row 0", "it has: id, text", "--field")
        self.fails(self.run_it(self.out, "--dataset", "rows", "--end", "</s>"), "no token </s>", "--end NAME")
        self.put("tokenizer.json", "numbers")
        self.fails(self.run_it(self.out, "--dataset", "rows"), "tokenizer.json", "cannot be read")
        os.mkdir(self.out)
        r = self.run_it(self.out, "--dataset", "rows")
        self.assertIn("is there already", r.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
