#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""10 MB of text in many languages have the ids of `tokenizers` and `tiktoken`: python3 tests/program/test_tokenizers.py
build/dev/bin/causeway. Left out where these are not installed (tools/setup.sh others)."""
import base64, glob, os, random, sys, unittest

from test_data import Data, tokens_in

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "formats")
sys.path.append(GOLDEN)
try:
    import tiktoken, tokenizers
    from make_tokenizers import LLAMA3
except ImportError as missing:
    tokenizers, why_not = None, f"{missing}; tools/setup.sh others"
else:
    why_not = ""

BYTES = 10_000_000

# Where scripts begin and end: Latin twice, its accents, Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Bengali, Tamil, Thai, Georgian,
# Ethiopic, Khmer, kana, Han, Hangul, Han beyond 16 bits, mathematical letters and digits, emoji.
SCRIPTS = [(0x61, 0x7B), (0x41, 0x7B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x531, 0x590), (0x591, 0x5F5), (0x600, 0x700), (0x900, 0x980),
           (0x980, 0xA00), (0xB80, 0xC00), (0xE00, 0xE60), (0x10A0, 0x1100), (0x1200, 0x1380), (0x1780, 0x1800), (0x3041, 0x3100), (0x4E00, 0x9FFF),
           (0xAC00, 0xD7A4), (0x20000, 0x2A6DF), (0x1D400, 0x1D800), (0x1F300, 0x1F650)]
BETWEEN = [" "] * 30 + [", ", ". ", "\n", "\n\n", "\r\n", "  ", "\t", "'s ", "'LL ", "n't ", "-", "(", ") ", "\u3001", "\u3002", "\u00a0", "\u2028", "\u2019s ", "\u0301 ", " 12 ",
                         "3,456.7", " 12345678", "...", "!?", "/", "=="]


def text_of_many_languages(size):
    """The same everywhere: a language for some words, then another one."""
    draw, parts, length = random.Random(1), [], 0
    while length < size:
        first, last = draw.choice(SCRIPTS)
        words = ["".join(chr(draw.randrange(first, last)) for _ in range(draw.randint(1, 9))) for _ in range(20)]
        part = "".join(draw.choice(words) + draw.choice(BETWEEN) for _ in range(draw.randint(1, 60)))
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def theirs(folder, text):
    """The ids of the reference, for the file that the folder has."""
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        return tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json")).encode(text, add_special_tokens=False).ids
    with open(os.path.join(folder, "tokenizer.model")) as file:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(str.split, file)}
    return tiktoken.Encoding("ranks", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={}).encode_ordinary(text)


@unittest.skipIf(tokenizers is None, why_not)
class ManyLanguages(Data):
    def test_ids_are_those_of_tokenizers_and_tiktoken(self):
        text = text_of_many_languages(BYTES)
        path = self.put("many.txt", text)
        for name in ("gpt2", "llama3", "tiktoken"):
            with self.subTest(name):
                folder, out = os.path.join(GOLDEN, "tokenizers", name), self.path(name)
                self.works(self.tokenize(path, out, "--tokenizer", folder))
                ours = [token for shard in sorted(glob.glob(os.path.join(out, "*.bin"))) for token in tokens_in(shard)]
                expected = theirs(folder, text)
                self.assertTrue(ours[:len(expected)] == expected, name)  # a list of all differences would be long
                self.assertLessEqual(len(ours) - len(expected), 1)  # the end of the document


if __name__ == "__main__":
    unittest.main(verbosity=2)
