#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a data set of Hugging Face, or parquet files, into token shards that `causeway train --data.path OUT` reads.

  prepare_data.py OUT --tokenizer tokenizer.json --dataset NAME [--subset S] [--split train]
  prepare_data.py OUT --tokenizer tokenizer.json --parquet part-*.parquet

OUT appears when all is in it. Each document is followed by the end of text of the tokenizer. For text and JSON lines there is
`causeway tokenize`, which needs no packages.
"""
import argparse, array, glob, os, shutil, struct, sys, tempfile, time

END_NAMES = ("<|endoftext|>", "<|end_of_text|>")


def stop(message):
    sys.exit(f"prepare_data.py: {message}")


def need(module, package=None):
    try:
        return __import__(module)
    except ImportError as missing:
        stop(f"needs the package {package or module} ({missing}); install it with: pip install {package or module}")


def of_dataset(args):
    datasets = need("datasets")
    rows = datasets.load_dataset(args.dataset, args.subset, split=args.split, streaming=True)
    for number, row in enumerate(rows):
        if args.field not in row:
            stop(f"{args.dataset}, row {number}: has no '{args.field}' (it has: {', '.join(row)}); name the text with --field")
        yield row[args.field]


def of_parquet(args):
    need("pyarrow")
    import pyarrow.parquet
    paths = sorted(path for pattern in args.parquet for path in (glob.glob(pattern) if glob.has_magic(pattern) else [pattern]))
    if not paths:
        stop(f"{' '.join(args.parquet)}: there is no such file")
    for path in paths:
        try:
            file = pyarrow.parquet.ParquetFile(path)
        except (OSError, ValueError) as bad:  # ArrowInvalid is a ValueError
            stop(f"{path}: {bad}")
        names = file.schema_arrow.names
        if args.field not in names:
            stop(f"{path}: has no column '{args.field}' (it has: {', '.join(names)}); name the text with --field")
        for batch in file.iter_batches(batch_size=1000, columns=[args.field]):
            yield from batch.column(0).to_pylist()


class Shards:
    """Files of llm.c: a header of 256 int32, then the tokens."""

    def __init__(self, folder, vocabulary, tokens_each):
        self.folder, self.each, self.files, self.total = folder, tokens_each, 0, 0
        self.magic, self.version, self.code = (20240520, 1, "H") if vocabulary <= 65536 else (20240801, 7, "I")
        self.waiting = array.array(self.code)

    def add(self, tokens):
        self.waiting.extend(tokens)
        self.total += len(tokens)
        while len(self.waiting) >= self.each:
            self.write(self.each)

    def write(self, count):
        out, self.waiting = self.waiting[:count], self.waiting[count:]
        if sys.byteorder == "big":
            out.byteswap()
        with open(os.path.join(self.folder, f"train_{self.files:06}.bin"), "wb") as f:
            f.write(struct.pack("<256i", self.magic, self.version, count, *[0] * 253))
            out.tofile(f)
        self.files += 1

    def finish(self):
        if self.waiting:
            self.write(len(self.waiting))


def batches(documents, size=256):
    batch = []
    for document in documents:
        if document:
            batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def cut(documents, tokenizer, end, shards):
    begin = shown = time.monotonic()
    for batch in batches(documents):
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            shards.add(encoding.ids + [end])
        now = time.monotonic()
        if sys.stderr.isatty() and now - shown > 0.2:
            shown = now
            print(f"\r\033[K{shards.total:,} tokens, {shards.total / (now - begin):,.0f}/s", end="", file=sys.stderr, flush=True)
    shards.finish()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if not shards.total:
        stop("the data set has no text")
    return shards.total / max(time.monotonic() - begin, 1e-9)


def end_of_text(tokenizer, path, name):
    for candidate in [name] if name else END_NAMES:
        if (token := tokenizer.token_to_id(candidate)) is not None:
            return token
    stop(f"{path}: has no token {name or ' or '.join(END_NAMES)}; say which one ends a text with --end NAME")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--dataset", help="name at Hugging Face, or a folder with a data set")
    source.add_argument("--parquet", nargs="+", help="files, or patterns of them")
    parser.add_argument("--subset", help="of the data set")
    parser.add_argument("--split", default="train", help="of the data set [train]")
    parser.add_argument("--field", default="text", help="the column with the text [text]")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--special", action="store_true",
                        help="take special tokens, such as <|endoftext|>, from text that spells them; for text that you trust")
    parser.add_argument("--end", help=f"name of the token that ends a text [{' or '.join(END_NAMES)}]")
    parser.add_argument("--shard_tokens", type=int, default=100_000_000, help="tokens in a file [100000000]")
    parser.add_argument("out", help="folder for the shards, not there yet")
    args = parser.parse_args()
    out = args.out.rstrip("/") or "/"
    if os.path.exists(out):
        stop(f"{out}: is there already; delete it, or write to another folder")
    if not 0 < args.shard_tokens < 2**31:
        parser.error("--shard_tokens: use 1 to 2147483647")
    tokenizers = need("tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(args.tokenizer)
    except Exception as bad:  # the package raises nothing more special
        stop(f"{args.tokenizer}: cannot be read ({bad}); give the tokenizer.json of a model")
    tokenizer.encode_special_tokens = not args.special  # true: as any other text
    end = end_of_text(tokenizer, args.tokenizer, args.end)
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    beside = tempfile.mkdtemp(prefix=os.path.basename(out) + ".", suffix=".unfinished", dir=os.path.dirname(os.path.abspath(out)))
    try:
        shards = Shards(beside, tokenizer.get_vocab_size(), args.shard_tokens)
        rate = cut(of_dataset(args) if args.dataset else of_parquet(args), tokenizer, end, shards)
        shutil.copyfile(args.tokenizer, os.path.join(beside, "tokenizer.json"))
        os.chmod(beside, 0o755)
        os.rename(beside, out)
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        sys.exit(130)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    print(f"{shards.total} tokens in {shards.files} files of {out}, {rate:.0f} tokens/s\ntrain on them with --data.path {out}")


if __name__ == "__main__":
    main()
