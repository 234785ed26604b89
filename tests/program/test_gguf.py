#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others make of our GGUF files: python3 tests/program/test_gguf.py build/dev/bin/causeway. What needs other programs is
left out where they are not installed (tools/setup.sh others; or pip install gguf llama-cpp-python)."""
import collections, json, os, re, struct, unittest

from test_formats import BPE, LLAMA, Formats
from llama_cpp_library import LlamaCpp, find_library

try:
    import gguf, numpy
    from gguf import GGMLQuantizationType, GGUFReader
except ImportError as missing:
    gguf, why_not = None, f"{missing}; pip install gguf"
else:
    why_not = ""

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "formats", "tokenizers")


class GgufFiles(Formats):
    def setUp(self):
        super().setUp()
        self.gguf = os.path.join(self.dir, "model.gguf")

    def train(self, *args):
        self.works(self.run_it("--run.fresh", "true", *args))

    def export_gguf(self, *args):
        self.assertIn("and the tokenizer", self.export(*args, out=self.gguf).stdout)


class Files(GgufFiles):
    def test_the_format_goes_by_the_name_or_by_what_is_said(self):
        self.train("--steps", "2")
        self.export_gguf()
        with open(self.gguf, "rb") as f:
            self.assertEqual(struct.unpack("<4sI", f.read(8)), (b"GGUF", 3))
        other = os.path.join(self.dir, "other")
        self.export("--format", "gguf", out=other)
        self.assertEqual(self.file("model.gguf", self.dir), self.file("other", self.dir))
        self.export("--format", "huggingface", out=os.path.join(self.dir, "folder.gguf"))
        self.assertIn("config.json", os.listdir(os.path.join(self.dir, "folder.gguf")))

    def test_smaller_types_are_smaller(self):
        self.train(*LLAMA, "--model.width", "64", "--steps", "2")
        sizes = []
        for name in ("f32", "bf16", "f16", "q8_0"):
            self.export_gguf("--dtype", name)
            sizes.append(os.path.getsize(self.gguf))
        self.assertEqual(sizes[1], sizes[2])
        self.assertLess(sizes[1], 0.6 * sizes[0])
        self.assertLess(sizes[3], 0.6 * sizes[2])


@unittest.skipIf(gguf is None, why_not)
class Gguf(GgufFiles):
    """What the gguf package reads, and quantises, as we do."""

    def tensors(self):
        reader = GGUFReader(self.gguf)
        return reader, {t.name: t for t in reader.tensors}

    def exported(self):
        """The tensors of the safetensors file in self.out, F32, with rows and columns as llama.cpp has them."""
        blob = self.file("model.safetensors")
        size = int.from_bytes(blob[:8], "little")
        for name, about in json.loads(blob[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + o for o in about["data_offsets"])
            values = numpy.frombuffer(blob[begin:end], dtype="<f4").reshape(about["shape"])
            if kind := re.search(r"self_attn.([qk])_proj", name):  # neighbours are rotated there, of 4 and 2 heads
                values = values.reshape(4 if kind[1] == "q" else 2, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
            elif name.startswith("transformer.h.") and values.ndim == 2:
                values = values.T
            yield name, values

    def test_every_tensor_is_there_with_its_values(self):
        for family in ([], LLAMA):
            with self.subTest(family):
                self.train(*family, *BPE, "--steps", "3")
                self.export()
                self.export_gguf()
                block = lambda name: (re.findall(r"^(?:blk|transformer\.h|model\.layers)\.(\d+)\.", name) or ["none"])[0]
                key = lambda name, values: (block(name), values.shape, values.tobytes())
                theirs = collections.Counter(key(n, t.data) for n, t in self.tensors()[1].items())
                self.assertEqual(theirs, collections.Counter(key(n, v) for n, v in self.exported()))

    def test_types_have_the_bytes_of_the_reference(self):
        self.train(*LLAMA, *BPE, "--steps", "3")
        self.export_gguf()
        exact = {n: numpy.array(t.data) for n, t in self.tensors()[1].items()}
        for name, type, file_type in (("q8_0", GGMLQuantizationType.Q8_0, 7), ("f16", GGMLQuantizationType.F16, 1),
                                      ("bf16", GGMLQuantizationType.BF16, 32)):
            with self.subTest(name):
                self.export_gguf("--dtype", name)
                reader, tensors = self.tensors()
                self.assertEqual(reader.get_field("general.file_type").contents(), file_type)
                whole = {n: t for n, t in tensors.items() if t.tensor_type == type}
                self.assertIn("blk.1.ffn_gate.weight", whole)
                for n, t in whole.items():
                    self.assertEqual(t.data.tobytes(), gguf.quants.quantize(exact[n], type).tobytes(), n)

    def test_the_tokenizer_is_there(self):
        self.train(*BPE, "--steps", "3")
        self.export_gguf()
        reader = self.tensors()[0]
        tokens = reader.get_field("tokenizer.ggml.tokens").contents()
        self.assertEqual((len(tokens), len(set(tokens))), (290, 290))
        self.assertEqual(len(reader.get_field("tokenizer.ggml.merges").contents()), 34)
        self.assertEqual(reader.get_field("general.name").contents(), "causeway")


@unittest.skipIf(find_library() is None, "llama.cpp is not here; pip install llama-cpp-python")
class LlamaCppItself(GgufFiles):
    """What llama.cpp makes of a file."""

    def tokens_of_run(self):
        blob = self.file("tokens.bin", os.path.join(self.dir, "runs", "causeway"))
        return list(struct.unpack(f"<{(len(blob) - 1024) // 2}H", blob[1024:]))

    def test_it_says_the_same(self):
        prompt = "the sea and one"
        for family in ([], LLAMA):
            for tokenizer in ([], BPE):
                with self.subTest(f"{family} {tokenizer}"):
                    self.train(*family, *tokenizer, "--steps", "60")
                    self.export_gguf()
                    ours = self.works(self.run_on("generate", "--prompt", prompt, "--sample.temperature", "0", "--sample.tokens", "12"))
                    model = LlamaCpp(self.gguf)
                    tokens = model.tokens(prompt)
                    for _ in range(12):
                        logits = model.logits(tokens)
                        tokens.append(logits.index(max(logits)))
                    self.assertEqual(ours.stdout.rstrip("\n"), model.text(tokens).rstrip("\n"))

    def test_text_has_the_same_tokens_by_our_rule_where_letters_are_letters(self):
        with open(self.text, "w") as f:
            f.write("naïve café, it's they've\n\n  tabs\t\tand    blanks 'round 1234567 (so!) ... Größe; Съешь же ещё " * 20 + "end")
        self.train(*BPE, "--steps", "1")
        self.export_gguf()
        with open(self.text) as f:
            self.assertEqual(LlamaCpp(self.gguf).tokens(f.read()), self.tokens_of_run())

    def test_text_has_the_same_tokens_by_the_rules_of_gpt2_and_llama3(self):
        with open(os.path.join(GOLDEN, "ids.json")) as f:
            ids = json.load(f)
        with open(os.path.join(GOLDEN, "text.txt"), encoding="utf-8", newline="") as f:
            text = f.read()
        for name in ("gpt2", "llama3"):
            with self.subTest(name):
                self.train("--data.tokenizer", os.path.join(GOLDEN, name), "--steps", "1")
                self.export_gguf()
                self.assertEqual(LlamaCpp(self.gguf).tokens(text), ids[name])


if __name__ == "__main__":
    unittest.main(verbosity=2)
