#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the library into one header for each tier: single_include/causeway/causeway.hpp has all of it, train.hpp what training
takes, and so on. Any of them can be vendored alone, or several together.

usage: amalgamate.py --write | --check | --output FILE [--tier NAME]

Each own header appears once, after all that it needs, with its guard, so that the single header and the tree can meet in
one translation unit. System and third-party includes stay where they first occur. The output depends on the sources alone: no
date, no path. Refuses an own #include inside #if outside the umbrella: the first occurrence is the one that is expanded, so
the header would be missing wherever that condition does not hold.
"""

import argparse
import sys
from pathlib import Path

import source_tree as tree

OUTPUT = tree.ROOT / "single_include"
HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Causeway {version}, {what} in one. Written by tools/amalgamate.py: change the headers, not this file.
"""


class Refused(Exception):
    pass


def version():
    source = tree.read(tree.INCLUDE / "causeway/config/version.hpp", "")
    words = [line.split() for line in source.lines]
    return ".".join(w[2] for part in ("MAJOR", "MINOR", "PATCH") for w in words if w[1:2] == [f"CAUSEWAY_VERSION_{part}"])


class Amalgamation:
    def __init__(self):
        self.out = []
        self.expanded = set()
        self.seen = set()  # third-party includes already written where no #if can hide them
        self.conditional = False  # inside one of the tier's conditional blocks
        self.contract = set()  # headers that somebody needs who has no bodies

    def find_contract(self, name):
        """What header `name` includes for others than its bodies."""
        if name in self.contract:
            return
        self.contract.add(name)
        for include in tree.read(tree.INCLUDE / name, name).own_includes():
            if include.target != tree.body_of(name):
                self.find_contract(include.target)

    def expand(self, name):
        """Writes all that header `name` includes and has not been written yet, then its own text and its bodies."""
        if name in self.expanded:
            return
        self.expanded.add(name)
        path = tree.INCLUDE / name
        if not path.exists():
            raise Refused(f"there is no <{name}>")
        source = tree.read(path, name)
        body = tree.body_of(name)
        for include in source.own_includes():
            if include.depth == 0:
                self.expand(include.target)
            elif include.target != body and name not in tree.TIERS:
                raise Refused(f"include/{name}:{include.line}: own #include inside #if; move it to a tier or "
                              "include it always")
        self.out += ["", f"// ---- {name} ----"]
        self.write(source)
        if any(include.target == body for include in source.includes):
            self.expand_body(tree.read(tree.INCLUDE / body, body))

    def expand_body(self, source):
        """Header-only, or in the one file of a program that has the bodies. What only bodies include goes along."""
        hidden = []
        self.sort_out(source, hidden)
        with_bodies = "#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)"
        outside, self.conditional = self.conditional, True
        for header in hidden:
            self.out += ["", f"// ---- {header.name} ----", with_bodies]
            self.write(header)
            self.out.append("#endif")
        self.out += ["", f"// ---- {source.name} ----", with_bodies]
        self.write(source)
        self.out.append("#endif")
        self.conditional = outside
        for header in hidden:
            body = tree.body_of(header.name)
            if any(include.target == body for include in header.includes):
                self.expand_body(tree.read(tree.INCLUDE / body, body))

    def sort_out(self, source, hidden):
        """Writes what is part of the contract; collects what only bodies need, in the order in which it is needed."""
        for include in source.own_includes():
            name = include.target
            if name in self.contract:
                self.expand(name)
            elif name not in self.expanded and not name.endswith(".ipp"):
                self.expanded.add(name)
                header = tree.read(tree.INCLUDE / name, name)
                self.sort_out(header, hidden)
                hidden.append(header)

    def write(self, source):
        includes = {i.line: i for i in source.includes}
        for number, line in enumerate(without_body(source), 1):
            include = includes.get(number)
            if include and include.target.startswith("causeway/"):
                if include.depth > 0:
                    outside, self.conditional = self.conditional, True
                    self.expand(include.target)
                    self.conditional = outside
            elif include and include.target in self.seen or line.startswith("// SPDX-License-Identifier"):
                continue
            elif line != "" or self.out[-1] != "":  # dropped includes leave no gap
                if include and include.depth == 0 and not self.conditional:
                    self.seen.add(include.target)
                self.out.append(line)


def without_body(source):
    lines = source.lines
    here = next((i.line for i in source.includes if i.target == tree.body_of(source.name)), None)
    return lines if here is None else lines[:here - 2] + lines[here + 2:]


def amalgamate(tier):
    work = Amalgamation()
    work.find_contract(tier)
    work.expand(tier)
    what = "all headers" if tier == tree.UMBRELLA else f"what {tier} includes"
    return HEAD.format(version=version(), what=what) + "\n".join(work.out) + "\n"


def write(target, text):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {text.count(chr(10))} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write single_include/causeway/*.hpp")
    mode.add_argument("--check", action="store_true", help="fail when those files are not what --write would write")
    mode.add_argument("--output", type=Path, help="write one tier to another place")
    parser.add_argument("--tier", choices=[n.removeprefix("causeway/") for n in tree.TIERS], default="causeway.hpp")
    options = parser.parse_args()
    wanted = ["causeway/" + options.tier] if options.output else list(tree.TIERS)
    try:
        texts = {tier: amalgamate(tier) for tier in wanted}
    except Refused as problem:
        sys.exit(str(problem))

    for tier, text in texts.items():
        there = OUTPUT / tier
        if not options.check:
            write(options.output or there, text)
        elif not there.exists() or there.read_text(encoding="utf-8") != text:
            sys.exit(f"single_include/{tier} is out of date; run tools/amalgamate.py --write")
    if options.check:
        print(f"single headers: up to date, {texts[tree.UMBRELLA].count(chr(10))} lines")


if __name__ == "__main__":
    main()
