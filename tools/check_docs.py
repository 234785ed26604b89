#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks pages where check_tree.py, which looks after paths, does not: anchors of links, commands and options of the program, lists
that the site would show as text, and C++.

usage: check_docs.py                       anchors, commands, lists, and blocks that are parts of files
       check_docs.py --compile COMPILER    also compiles the other C++ blocks, in one file, without code (-fsyntax-only)
       check_docs.py --site FOLDER         links of a built site (tools/docs.sh)

A block of C++ is a part of a file that is compiled, named by a comment in front of it,

    <!-- code: examples/random_pair.hpp -->

or compiled by itself, as the body of a function that knows `model`, `env`, `options` and `using namespace causeway`. What else it
needs stands in a comment too, `<!-- before: std::string text; -->`; with `<!-- code: declarations -->` it is compiled outside of functions.
Whatever cannot be compiled is no `cpp` block.
"""

import argparse
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import markdown_text as md

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples/causeway"
SETTINGS = ROOT / "docs/reference/settings.md"
PREAMBLE = ROOT / "tools/docs_preamble.hpp"


def pages():
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    return [ROOT / n for n in names if (ROOT / n).exists()] + sorted((ROOT / "docs").rglob("*.md"))


class Findings:
    def __init__(self):
        self.count = 0

    def error(self, path, line, text):
        self.count += 1
        print(f"{path.relative_to(ROOT) if path.is_absolute() and path.is_relative_to(ROOT) else path}:{line}: {text}")


def check_anchors(page, text, known, found):
    for number, line in md.lines_of_text(text):
        for target in md.LINK.findall(line):
            name, hash_, anchor = target.partition("#")
            if not hash_ or "://" in target:
                continue
            there = (page.parent / name).resolve() if name else page
            if there.suffix == ".md" and there.exists():
                if there not in known:
                    known[there] = md.anchors(there.read_text())
                if anchor not in known[there]:
                    found.error(page, number, f"links to #{anchor}, which {there.relative_to(ROOT)} does not have")


def check_lists(page, text, found):
    """What GitHub takes for a list and the site for text."""
    before, in_list = "", False
    for number, line in md.lines_of_text(text):
        item = re.match(r"( *)([-*]|\d+\.) ", line)
        if item and before.strip() and not in_list:
            found.error(page, number, "a list begins without an empty line before it")
        indent = len(line) - len(line.lstrip())
        if in_list and line.strip() and not before.strip() and 0 < indent < 4:
            found.error(page, number, "a paragraph of a list item is indented by 4")
        in_list = bool(item) or (in_list and (bool(before.strip()) or indent > 0 or not line.strip()))
        before = line


def check_troubleshooting(found):
    """Each code of the page of errors has its row."""
    errors, help_page = ROOT / "docs/reference/errors.md", ROOT / "docs/troubleshooting.md"
    for code in re.findall(r"^\| \d+ \| `(\w+)`", errors.read_text(), re.M) if errors.exists() else []:
        if f'<a id="{code}">' not in help_page.read_text():
            found.error(help_page, 1, f"has no row for the error {code}; add one with <a id=\"{code}\"></a>")


def known_words():
    """Commands of the program and all its options, from where both are written down."""
    source = "".join((PROGRAM / n).read_text() for n in ("commands.cpp",))
    commands = set(re.findall(r'\.name = "([a-z-]+)"', source)) | {"help", "version"}
    options = {"--help", "--help-all", "--version", "--effective"}
    for name, alias in re.findall(r"^\| `([\w.]+)` \| (?:`(--[\w-]+)`)?", SETTINGS.read_text(), re.M):
        options |= {"--" + name, alias} - {""}
    for path in PROGRAM.glob("*.cpp"):
        options |= {"--" + n for n in re.findall(r'make_setting\(\s*"([\w-]+)"', path.read_text())}
    options = {o.replace("_", "-") for o in options}
    return commands, options, options | options_of_tools()


def options_of_tools():
    """Those of our scripts, benchmarks and of CMake, as far as they are written down as strings."""
    files = [p for folder in ("tools", "bench", "cmake", "tests") for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".sh", ".cpp", ".hpp", ".cu", ".cmake")]
    nvcc = {"--use-fast-math"}
    return nvcc | {o.replace("_", "-") for p in files for o in re.findall(r"(?<![\w-])--[a-z][\w-]*\w", p.read_text())}


def check_command(page, number, line, words, found):
    commands, options = words[:2]
    for match in re.finditer(r"(?<![\w/.:-])causeway +([a-z][\w-]*)?([^`|;#&)]*)", line):
        command = match[1]
        if command and command not in commands and re.match(r"[a-z-]+$", command):
            if re.match(r" *(--|@|$)", match[2]) or command.endswith("-"):
                found.error(page, number, f"names the command `causeway {command}`, which is not there")
        for option in re.findall(r"(?<![\w-])--[a-z][\w.-]*[\w]", match[0]):
            if option.replace("_", "-") not in options:
                found.error(page, number, f"names the option {option}, which the program does not have")


def check_commands(page, text, words, found):
    if page.name == "CHANGELOG.md":
        return  # of any version
    for number, _, lines in [b for b in md.blocks(text) if b[1] in ("", "sh", "text")]:
        joined = "\n".join(lines).replace("\\\n", "  ")
        for offset, line in enumerate(joined.splitlines()):
            check_command(page, number + offset, line, words, found)
    for number, line in md.lines_of_text(text):
        for span in re.findall(r"`([^`]+)`", line):
            if span.startswith("causeway "):
                check_command(page, number, span, words, found)
            elif (option := re.match(r"--[a-z][\w.-]*\w", span)) and option[0].replace("_", "-") not in words[2]:
                found.error(page, number, f"names the option {option[0]}, which neither the program nor a tool has")


def marked_blocks(text):
    """The C++ blocks: line, what the comments before say (kind, text), lines."""
    lines = text.splitlines()
    for number, info, block in md.blocks(text):
        if info.split(" ")[0] not in ("cpp", "c++"):
            continue
        marks, at = {}, number - 3  # the line before the fence
        while at >= 0 and (mark := re.match(r" *<!-- (code|before): (.*) -->$", lines[at])):
            marks[mark[1]] = mark[2] if mark[1] not in marks else mark[2] + " " + marks[mark[1]]
            at -= 1
        yield number, marks, block


def is_part(block, path):
    """Whether the block stands in the file, whatever its indentation and line breaks."""
    return " ".join(" ".join(block).split()) in " ".join(path.read_text().split())


def check_parts(page, text, found):
    for number, marks, block in marked_blocks(text):
        name = marks.get("code", "declarations")
        if name == "declarations":
            continue
        if not (ROOT / name).is_file():
            found.error(page, number - 1, f"is said to be a part of {name}, which is not there")
        elif not is_part(block, ROOT / name):
            found.error(page, number - 1, f"is not a part of {name}; copy it anew")


def unit_of(all_pages):
    """The other blocks, in one file."""
    parts, count = [f'#include "{PREAMBLE}"'], 0
    for page in all_pages:
        for number, marks, block in marked_blocks(page.read_text()):
            if "code" in marks and marks["code"] != "declarations":
                continue
            count += 1
            # Includes are those of the preamble.
            body = "\n".join(l if not l.startswith("#include") else "" for l in block)
            line = f'#line {number} "{page.relative_to(ROOT)}"\n'
            before = line + marks.get("before", "") + "\n" + line
            inside = f"namespace page_{count} {{\nusing namespace causeway;\n"
            inside += f"{before}{body}\n" if "code" in marks else f"void block() {{\n{before}{body}\n}}\n"
            parts.append(inside + "}")
    return "\n".join(parts) + "\n", count


def compile_blocks(compiler, all_pages, found):
    unit, count = unit_of(all_pages)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", "-DCAUSEWAY_COMPILED", "-DCAUSEWAY_HAS_JSON", "-I", str(ROOT / "include"), "-I", str(ROOT / "tests"),
               "-x", "c++", "-"]
    run = subprocess.run(command, input=unit, text=True, capture_output=True, check=False, cwd=ROOT, env={**os.environ, "LC_ALL": "C"})
    before, error = found.count, None  # where an error is in a header, notes after it name the block
    for line in run.stderr.splitlines():
        here, said = re.match(r"(docs/[^:]+|README\.md):(\d+):", line), re.search(r"\berror: (.*)", line)
        error = said[1] if said else error
        if error and here:
            found.error(Path(here[1]), here[2], error)
            error = None
    if run.returncode != 0 and found.count == before:
        found.error(Path("docs"), 0, "blocks do not compile:\n" + run.stderr)
    return count


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif name in ("href", "src") and value and not re.match(r"[a-z]+:|//", value):
                self.targets.append(value)


def check_site(folder, found):
    """Of our pages; doxygen's own link to what doxygen wrote."""
    read, number = {}, 0
    for path in sorted(folder.rglob("*.html")):
        if path.name == "404.html" or path.is_relative_to(folder / "api"):
            continue  # the first is for the root of a server
        number += 1
        read[path] = read.get(path) or Links(path.read_text())
        for target in read[path].targets:
            name, _, anchor = unquote(target).partition("#")
            there = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not there.exists():
                found.error(path, 1, f"links to {target}, which is not there")
            elif anchor and there.suffix == ".html" and anchor not in (read.setdefault(there, Links(there.read_text()))).ids:
                found.error(path, 1, f"links to {target}, which has no such anchor")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", metavar="COMPILER")
    parser.add_argument("--site", type=Path)
    options = parser.parse_args()
    found = Findings()
    if options.site:
        print(f"site: {check_site(options.site.resolve(), found)} pages, {found.count} findings")
        return 1 if found.count else 0
    all_pages, known, words = pages(), {}, known_words()
    for page in all_pages:
        text = page.read_text()
        check_anchors(page, text, known, found)
        check_lists(page, text, found)
        check_commands(page, text, words, found)
        check_parts(page, text, found)
    check_troubleshooting(found)
    compiled = f", {compile_blocks(options.compile, all_pages, found)} blocks compiled" if options.compile else ""
    print(f"docs: {len(all_pages)} pages{compiled}, {found.count} findings")
    return 1 if found.count else 0


if __name__ == "__main__":
    sys.exit(main())
