#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small byte-level BPE tokenizers with GPT-2's and Llama 3's patterns, and writes what the reference programs make of
one text, and of one that spells special tokens, into the folder tokenizers/ beside this script: the files of the tokenizers,
text.txt, special.txt, and ids.json.

    pip install tokenizers tiktoken
    python3 tests/golden/formats/make_tokenizers.py

Made with tokenizers 0.23.3 and tiktoken 0.14.0 (Unicode 16).
"""
import base64
import json
import pathlib

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).parent / "tokenizers"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eot_id|>>"]
TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't care; it's asleep. They're sure we'll see, I'd say.\n",
    "DON'T YOU'LL WE'VE I'M IT'S THEY'RE HE'D it'\u017f 'tis ''s o'clock rock'n'roll '\n\n",
    "Der Fu\u00df ist na\u00df; Gr\u00f6\u00dfe 42,5 \u00fcber alles. El ni\u00f1o comi\u00f3 ma\u00f1ana 1.234,56 \u20ac.\r\n\r\n",
    "\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451 \u044d\u0442\u0438\u0445 \u043c\u044f\u0433\u043a\u0438\u0445 \u0431\u0443\u043b\u043e\u043a! "
    "\u6211\u80fd\u541e\u4e0b\u73bb\u7483\u800c\u4e0d\u4f24\u8eab\u4f53\u30022023\u5e7412\u670831\u65e5\u3002\u79c1\u306f\u30ac\u30e9\u30b9\u3092\u98df\u3079\u307e\u3059\u3002 "
    "\uc720\ub9ac\ub97c \uba39\uc744 \uc218 \uc788\uc5b4\uc694. \u0623\u0646\u0627 \u0642\u0627\u062f\u0631 \u0661\u0662\u0663\u0664\u0665. "
    "\u092e\u0948\u0902 \u0915\u093e\u0901\u091a \u0916\u093e \u0938\u0915\u0924\u093e \u0939\u0942\u0901 \u0967\u0968\u0969. \u0e09\u0e31\u0e19\u0e01\u0e34\u0e19\u0e01\u0e23\u0e30\u0e08\u0e01\u0e44\u0e14\u0e49\n",
    "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2728 e\u0301a\u0300 \u00a0\u3000\u2003x\u2028y\u2029z\u0085w\x1c\x1f \u00bd\u00b2\u2167 \U0001d7d8\U00020000 \ue000 \u0378\ufffd\n",
    "for (int i = 0; i < 10; ++i) {\n\tprintf(\"%d\\n\", i);\n\t\tx  =  y ** 2;   \n    }\n \n  \n\n   end 1234567890 12 345 6789.\n",
    "aaaaaaaaaaaaaaaaaaaaaaaa abababababababab banananananas ==================== !!!???...\n\n\n   \t  \r\n  ",
]
# Names of special tokens of both families, whole and in pieces, at both ends, side by side, between spaces and line ends that
# belong to no word, and one that another one begins with.
SPECIAL = ("<|begin_of_text|>The dog<|endoftext|> doesn't  <|eot_id|>  care\r\n\r\n<|eot_id|>\n\n<|end_of_text|><|begin_of_text|>12345"
           "<|end_of_text|>6 <|eot_id|>> <|eot_id|> ab<|end_of_text <|endoftext |> <<|endoftext|>>\n<|eot_id|>")


def steps(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def trained(cuts, specials, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = cuts
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(specials)
    return tokenizer


def bytes_of(name):
    """What the letters of a token stand for, by the alphabet of GPT-2's encoder.py."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    letters = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    return bytes(letters[c] for c in name)


def write(folder, name, text):
    (OUT / folder).mkdir(parents=True, exist_ok=True)
    (OUT / folder / name).write_bytes(text.encode())


def main():
    text = "".join(TEXT)
    ids = {}
    gpt2 = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"], 420)
    ids["gpt2"] = gpt2.encode(text).ids
    ids["gpt2_special"] = gpt2.encode(SPECIAL).ids
    stored = json.loads(gpt2.to_str())
    vocabulary, merges = stored["model"]["vocab"], stored["model"]["merges"]
    stored["model"]["merges"] = [" ".join(m) for m in merges]  # as older files have them
    write("gpt2", "tokenizer.json", json.dumps(stored, ensure_ascii=False))
    names = vocabulary | {"<|endoftext|>": len(vocabulary)}
    write("gpt2_files", "vocab.json", json.dumps(names, ensure_ascii=False))
    write("gpt2_files", "merges.txt", "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in merges))

    llama3 = trained(steps(LLAMA3), LLAMA3_SPECIALS, 420)
    stored = json.loads(llama3.to_str())
    stored["model"]["ignore_merges"] = True
    write("llama3", "tokenizer.json", json.dumps(stored, ensure_ascii=False))
    llama3 = Tokenizer.from_str(json.dumps(stored))
    ids["llama3"] = llama3.encode(text).ids
    ids["llama3_special"] = llama3.encode(SPECIAL).ids
    ranks = {bytes_of(name): number for name, number in stored["model"]["vocab"].items()}
    lines = "".join(f"{base64.b64encode(t).decode()} {n}\n" for t, n in sorted(ranks.items(), key=lambda r: r[1]))
    write("tiktoken", "tokenizer.model", lines)
    for name, pattern in (("tiktoken", LLAMA3), ("tiktoken_gpt2", GPT2)):
        specials = ["<|endoftext|>"] if pattern == GPT2 else LLAMA3_SPECIALS[:2]
        numbers = {special: len(ranks) + i for i, special in enumerate(specials)}
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=numbers)
        ids[name] = encoding.encode_ordinary(text)
        ids[name + "_special"] = encoding.encode(SPECIAL, allowed_special="all")
    write(".", "text.txt", text)
    write(".", "special.txt", SPECIAL)
    write(".", "ids.json", json.dumps(ids, separators=(",", ":")))


if __name__ == "__main__":
    main()
