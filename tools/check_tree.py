#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what no compiler checks: layers, doors, guards, tiers, mirrored tests, banned words, file lengths, and that
the paths that pages and scripts name are there.

usage: check_tree.py [--fix-umbrella] [--format]

  --fix-umbrella  write the headers that programs include (include/causeway/*.hpp) anew from the headers found
  --format        also run clang-format 14 over all C++ and CUDA files (some seconds)

Prints one line for each finding, `path:line: what; what to do`, and ends with status 1 when there are any. A line that must
break a rule about words says why in a comment that holds `tree: allow`.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import source_tree as tree
from source_tree import DOORS, RANKS, ROOT, SIDE

SOFT_LINES, HARD_LINES = 300, 400

# Headers without a test file of their own name: the file that tests them through the header they serve.
TESTED_THROUGH = [
    (r"config/version\.hpp", "tests/consumers/main.cpp"),
    (r"comm/hub_(clients|pushes)\.hpp", "tests/comm/parameter_server.cpp"),
    (r"comm/(round_(rows|state)|fixed_turns|fragment_rows)\.hpp", "tests/comm/rounds.cpp"),
    (r"comm/(own_(parameters|part)|late_rows)\.hpp", "tests/comm/round_turns.cpp"),
    (r"comm/(push_core|elastic_pushes)\.hpp", "tests/comm/async_parameter_server.cpp"),
    (r"config/config\.hpp", "tests/core/result.cpp"),
    (r"parallel/(pipeline/pipeline_(batch|pass|mailbox)|stage_model)\.hpp", "tests/parallel/pipeline.cpp"),
    (r"(parallel/swarm/swarm_(mailbox|options|peer)|train/swarm_group)\.hpp", "tests/parallel/swarm.cpp"),
    (r"parallel/elastic/(policy_exchange|step_(gradient|meetings|vote))\.hpp", "tests/parallel/elastic_pipeline.cpp"),
    (r"parallel/elastic/(cohort_progress|replica_(steps|sums))\.hpp", "tests/parallel/local_pipeline.cpp"),
    (r"parallel/elastic/streamed_steps\.hpp", "tests/parallel/local_async_pipeline.cpp"),
    (r"parallel/elastic/(step_group|block_ownership|part_change)\.hpp", "tests/parallel/elastic/elastic_recovery.cpp"),
    (r"policy/(traits|archetype)\.hpp", "tests/policy/concepts.cpp"),
    (r"(policy/executor|train/(pipeline|swarm)_executors)\.hpp", "tests/parallel/executors.cpp"),
    (r"nn/model_engine\.hpp", "tests/nn/held_part.cpp"),
    (r"kernels/attention_\w+\.hpp", "tests/kernels/attention.cpp"),
    (r"kernels/packed_gemm_\w+\.hpp", "tests/kernels/packed_gemm.cpp"),
    (r"kernels/gemm\.hpp", "tests/kernels/packed_gemm.cpp"),
    (r"kernels/openmp_guard\.hpp", "tests/kernels/onednn_gemm.cpp"),
    (r"kernels/(targets|cpu_features)\.hpp", "tests/kernels/simd_math.cpp"),
    (r"collective/(butterfly|channels|encoding|flight|options|refusal|ring|sum)\.hpp", "tests/collective/all_reduce.cpp"),
    (r"net/mpi_(engine|library|options)\.hpp", "tests/net/mpi_transport.cpp"),
    (r"collective/mpi_(site_options|sums)\.hpp", "tests/collective/mpi_site.cpp"),
    (r"collective/site\.hpp", "tests/collective/transport_site.cpp"),
    (r"compress/element\.hpp", "tests/compress/codec.cpp"),
    (r"cuda/device/(row_kernels|queue|sort|product_queue)\.cuh", "tests/cuda/ops/reductions.cpp"),
    (r"cuda/(engine|ops/queue)\.hpp", "tests/cuda/ops/compute.cpp"),
    (r"cuda/device/tensor_cores\.cuh", "tests/cuda/ops/attention.cpp"),
    (r"(cuda/ops/queue_recording|nn/recorded_passes)\.hpp", "tests/cuda/recording.cpp"),
    (r"cuda/device/graph\.cuh", "tests/cuda/engine.cpp"),
    (r"cuda/bodies/attention_key_gradient_body\.hpp", "tests/cuda/bodies/attention_backward_bodies.cpp"),
    (r"net/(asio_(?!transport|fabric)\w+|transport_options)\.hpp", "tests/net/asio_transport.cpp"),
    (r"net/fabric(_options)?\.hpp", "tests/net/asio_fabric.cpp"),
    (r"membership/transfer/transfer_(options|holders)\.hpp", "tests/membership/transfer/transfer_fetcher.cpp"),
    (r"sim/disk_\w+\.hpp", "tests/sim/disk.cpp"),
    (r"sim/(connection|options)\.hpp", "tests/sim/network.cpp"),
    (r"membership/(attempt|attendance|candidate|finder|follower|leader|outlook|peer_table|situation)\.hpp",
     "tests/membership/protocol.cpp"),
    (r"train/(inner_steps|mean_exchange|model_arithmetic)\.hpp", "tests/train/context.cpp"),
    (r"train/(round_attendance|shared_state_of)\.hpp", "tests/train/member.cpp"),
    (r"train/(run_group|held_round|member_control)\.hpp", "tests/train/member.cpp"),
]

# (pattern, where it is banned, why). The code is searched without its comments and string literals.
BANNED = [
    (r"#\s*include\s*<(iostream|regex)>", "include", "slow to compile, and a library does not print; return a result"),
    (r"#\s*pragma\s+once", "include", "use the guard: the single header must be able to sit beside the tree"),
    (r"\busing\s+namespace\b", "include", "no using-directives in headers"),
    (r"\bstd::random_device\b|\bsrand\(|\bstd::rand\(", "include tests", "draw from causeway::rng: runs must repeat"),
    (r"\bsystem_clock\b", "include", "take time from core/clock.hpp: runs must repeat in the simulator"),
    (r"\bsleep_for\b|\bsleep_until\b|\busleep\(", "tests", "no sleeps in tests; wait for the event itself"),
    (r"(?<![A-Za-z])([Ww]orkers?|slaves?)(?![A-Za-z])", "include", "the word is peer (of a run) or thread (of a pool)"),
    (r"(?<![A-Za-z])[Nn]odes?(?![A-Za-z])", "include", "the word is peer (a graph may have nodes: only in autograd/)"),
]
# Workplaces and build machines leave their paths in sources by accident.
BANNED_ANYWHERE = re.compile(r"/work/|/root/|/home/\w")

# What pages and scripts call a path of this repository, and where our programs are once they are built.
NAMED_PATH = re.compile(r"(?<![\w./*<$-])((?:tools|docs|tests|examples|include|bench|cmake|single_include|\.ci)/[\w./-]*\w)(?![\w*<{/])")
NAMED_PROGRAM = re.compile(r"(?<![\w./-])build/([\w-]+)/([\w./-]*\w)")
PAGE_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FOREIGN_PATH = re.compile(r"\bmy_policy\b|github\.com/")  # a line about a file that somebody is to write, or of another project


class Findings:
    def __init__(self):
        self.errors = 0

    def error(self, path, line, text):
        self.errors += 1
        print(f"{path}:{line}: {text}")

    def remark(self, path, text):
        print(f"{path}: remark: {text}")


def without_comments(text):
    """The text with comments and string literals blanked out, line numbers kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def check_anatomy(source, found, path):
    """Licence line, guard, a paragraph that says what this is, our namespace."""
    lines = source.lines
    if source.name.replace("/impl/", "/").count("/") > 3:
        found.error(path, 1, "sub-folders are one level deep: causeway/FOLDER/SUBJECT/NAME (docs/design/layers.md)")
    if not lines or not lines[0].startswith("// SPDX-License-Identifier: Apache-2.0"):
        found.error(path, 1, "the first line must be `// SPDX-License-Identifier: Apache-2.0`")
    guard = source.guard
    if lines[1:3] != [f"#ifndef {guard}", f"#define {guard}"]:
        found.error(path, 2, f"the guard must be {guard}, on lines 2 and 3")
    if not lines or lines[-1] != f"#endif  // {guard}":
        found.error(path, len(lines), f"the last line must be `#endif  // {guard}`")
    bodies = source.name.endswith(".ipp")  # of the header whose name they have, which says it
    if len(lines) > 5 and not bodies and not lines[4].startswith("//"):
        found.error(path, 5, "after the guard comes a paragraph: what this is, what it keeps true, what it assumes")
    if source.folder != "config" and "namespace causeway { inline namespace CAUSEWAY_ABI {" not in source.text:
        found.error(path, 1, "code belongs into `namespace causeway { inline namespace CAUSEWAY_ABI { ... }}`, on one line, which ctags and doxygen read")


def check_includes(source, sources, found, path):
    for include in source.includes:
        if include.quoted:
            found.error(path, include.line, "headers are included with <causeway/...>, never relative")
        elif include.target.startswith("causeway/"):
            check_layer(source, include, sources, found, path)
        else:
            check_third_party(source, include, found, path)


def check_layer(source, include, sources, found, path):
    if include.target == tree.body_of(source.name):
        return  # see check_bodies
    if include.depth > 0:
        found.error(path, include.line, "own headers are not included inside #if: the single header would lose them")
    if include.target not in sources:
        found.error(path, include.line, f"there is no <{include.target}>")
        return
    mine, theirs = source.folder, sources[include.target].folder
    if mine == theirs:
        return
    if mine in SIDE:
        allowed = theirs in SIDE[mine]
    else:
        allowed = theirs not in SIDE and RANKS.get(mine, -1) > RANKS.get(theirs, len(RANKS))
    if not allowed:
        found.error(path, include.line, f"{mine} may not include {theirs}: only its own folder and lower ranks "
                    "(docs/design/layers.md)")


def check_third_party(source, include, found, path):
    for name, door in DOORS.items():
        if re.match(door.includes, include.target) and not re.search(door.headers, source.name):
            found.error(path, include.line, f"{name} is included in one place only: {door.headers}")
    known = r"(sys|netinet|arpa|linux|net)/"
    if "/" in include.target and not re.match(known, include.target) and not any(
            re.match(door.includes, include.target) for door in DOORS.values()):
        found.error(path, include.line, f"<{include.target}>: an unknown third-party library")


def check_bodies(sources, there, found):
    """A header ends with its bodies, unless they are compiled elsewhere; they begin with their header."""
    ending = "#ifndef CAUSEWAY_COMPILED\n#include <{}>\n#endif\n\n#endif  // {}\n"
    for name, source in there.items():
        path, header = f"include/{name}", tree.header_of(name)
        check_anatomy(source, found, path)
        check_includes(source, sources, found, path)
        if not source.includes or source.includes[0].target != header:
            found.error(path, 5, f"its header comes first: #include <{header}>")
        if header in sources and not sources[header].text.endswith(ending.format(name, sources[header].guard)):
            found.error(f"include/{header}", len(sources[header].lines), f"does not end with its bodies, inside #ifndef CAUSEWAY_COMPILED: {name}")
    for name, source in sources.items():
        for include in source.includes:
            if include.target.endswith(".ipp") and (include.target != tree.body_of(name) or include.target not in there):
                found.error(f"include/{name}", include.line, f"includes bodies that are not its own: <{include.target}>")


def check_virtuals(sources, there, found):
    """A virtual function whose body is elsewhere says so where it is declared, unless its class is a template. Were it not `inline`
    there, GCC and clang would emit the class's table of virtual functions, and all that it reaches, wherever the header is included
    without CAUSEWAY_COMPILED."""
    for name in map(tree.header_of, there):
        text = without_comments(sources[name].text) if name in sources else ""
        for match in re.finditer(r"[^;{}]*\b(?:virtual|override)\b[^;{}]*;", text):
            classes = re.findall(r"(?m)^(template <.*>\n)?(?:class|struct) \w+[^;{]*\{", text[:match.start()])
            in_template = bool(classes) and classes[-1] != ""
            if not in_template and not re.search(r"\bCAUSEWAY_INLINE\b|= ?(?:0|default|delete);", match[0]):
                line = text.count("\n", 0, match.end()) + 1
                found.error(f"include/{name}", line, "a virtual function with its body elsewhere is declared with CAUSEWAY_INLINE")


def check_doors(sources, found):
    """Only a door reaches a third-party library: whoever includes a door is one too, and must be named like one."""
    known = {}
    for name, source in sources.items():
        for door in sorted(tree.doors_of(name, sources, known)):
            if not re.search(DOORS[door].headers, name):
                found.error(f"include/{name}", 1, f"needs {door} through its includes; only {DOORS[door].headers} may")


def check_words(text, area, path, found):
    code = without_comments(text)
    original = text.splitlines()
    for pattern, areas, why in BANNED:
        if area not in areas.split():
            continue
        if "[Nn]odes" in pattern and "/autograd/" in path:
            continue
        for match in re.finditer(pattern, code):
            line = code.count("\n", 0, match.start()) + 1
            if "tree: allow" not in original[line - 1]:
                found.error(path, line, f"`{match[0].strip()}`: {why}")


def check_generated(texts, found):
    for name in tree.out_of_date(texts):
        found.error(f"include/{name}", 1, "does not list the headers as they are; run tools/check_tree.py --fix-umbrella")


def check_mirror(sources, found):
    """Each header has a test of its own name that includes the header first."""
    for name, source in sources.items():
        test = ROOT / "tests" / name.removeprefix("causeway/")
        test = test.with_suffix(".cpp")
        shown = test.relative_to(ROOT)
        if not test.exists():
            other = [file for pattern, file in TESTED_THROUGH if re.fullmatch("causeway/" + pattern, name)]
            if not any((ROOT / file).exists() for file in other):
                found.error(f"include/{name}", 1, f"has no test; write {shown}")
            continue
        first = tree.read(test, name).includes[:1]
        if source.path.suffix == ".hpp" and (not first or first[0].target != name):
            found.error(shown, first[0].line if first else 1, f"the header under test comes first: #include <{name}>")


def check_length(path, lines, found):
    if path.removeprefix("include/") in (*tree.TIERS, tree.COMPILED):
        return  # lists that this program writes
    if lines > HARD_LINES:
        found.error(path, lines, f"{lines} lines; the limit is {HARD_LINES}: cut the file along its subjects")
    elif lines > SOFT_LINES:
        found.remark(path, f"{lines} lines; aim at {SOFT_LINES}")


def our_files():
    """What git would carry: tracked files, and new ones that it does not ignore."""
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
    else:  # an unpacked archive
        names = [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*")]
        names = [n for n in names if not n.startswith((".git/", "build/", "data/", "runs/"))]
    return [n for n in names if n and (ROOT / n).is_file() and not n.startswith("single_include/")]


def check_other_files(names, found):
    """Tests, benchmarks, examples, tools and pages."""
    for name in names:
        path = ROOT / name
        kind = path.suffix
        if kind not in (".hpp", ".ipp", ".cpp", ".cuh", ".cu", ".h", ".py", ".sh", ".md", ".cmake", ".txt", ".toml", ".json"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        area = name.split("/")[0]
        for number, line in enumerate(text.splitlines(), 1):
            if BANNED_ANYWHERE.search(line) and name != "tools/check_tree.py":
                found.error(name, number, "a path of somebody's machine")
        if kind in (".cpp", ".cu", ".py", ".sh", ".cmake") and "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
            found.error(name, 1, "says no licence; add `SPDX-License-Identifier: Apache-2.0`")
        if kind in (".md", ".sh") or (kind == ".py" and area not in ("tests", "tools")):
            check_named_paths(name, text, found)
        if kind in (".hpp", ".ipp", ".cpp", ".cuh", ".cu"):
            check_words(text, area, name, found)
            check_length(name, text.count("\n"), found)


def check_named_paths(name, text, found):
    """Of a page or a script: whoever follows it must find what it names."""
    presets = {p["name"] for p in json.loads(read_if_there(ROOT / "CMakePresets.json") or '{"configurePresets": []}')["configurePresets"]}
    for number, line in enumerate(text.splitlines(), 1):
        for match in [] if FOREIGN_PATH.search(line) else NAMED_PATH.finditer(line):
            if not (ROOT / match[1]).exists():
                found.error(name, number, f"names {match[1]}, which is not there")
        for match in NAMED_PROGRAM.finditer(line):
            is_program = "." not in match[2].rsplit("/", 1)[-1]  # reports and the like go where somebody wants them
            if is_program and (match[1] not in presets or not match[2].startswith("bin/")):
                found.error(name, number, f"names {match[0]}; programs are built to bin/ in a folder build/PRESET")
        for match in PAGE_LINK.finditer(line) if name.endswith(".md") else []:
            if "://" not in match[1] and not (ROOT / name).parent.joinpath(match[1]).exists():
                found.error(name, number, f"links to {match[1]}, which is not there")


def read_if_there(path):
    return path.read_text(encoding="utf-8") if path.exists() else None


def check_format(names, found):
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if program is None:
        found.error(".clang-format", 1, "clang-format 14 is not installed (Debian: clang-format-14)")
        return
    files = [n for n in names if n.endswith((".hpp", ".ipp", ".cpp", ".cuh", ".cu"))]

    # Its --dry-run reports namespace comments that it would replace by themselves, so we compare its output instead.
    def formatted(name):
        return subprocess.run([program, name], cwd=ROOT, capture_output=True, text=True, check=False).stdout

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, wanted in zip(files, pool.map(formatted, files)):
            have = (ROOT / name).read_text(encoding="utf-8")
            if have != wanted:
                pairs = itertools.zip_longest(have.splitlines(), wanted.splitlines())
                line = next((i for i, (a, b) in enumerate(pairs, 1) if a != b), 1)
                found.error(name, line, f"not formatted; run clang-format-14 -i {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix-umbrella", action="store_true")
    parser.add_argument("--format", action="store_true")
    options = parser.parse_args()

    found = Findings()
    sources, there = tree.headers(), tree.bodies()
    texts = tree.generated(sources, there)
    for name in tree.write_generated(texts) if options.fix_umbrella else []:
        print(f"include/{name}: written")
    check_generated(texts, found)
    for name, source in sources.items():
        path = f"include/{name}"
        if source.folder not in RANKS and source.folder not in SIDE:
            found.error(path, 1, f"folder {source.folder or '.'} has no rank in tools/source_tree.py")
        check_anatomy(source, found, path)
        check_includes(source, sources, found, path)
    check_bodies(sources, there, found)
    check_virtuals(sources, there, found)
    check_doors(sources, found)
    check_mirror(sources, found)
    names = our_files()
    check_other_files(names, found)
    if options.format:
        check_format(names, found)

    print(f"tree: {len(sources)} headers, {len(names)} files, {found.errors} findings")
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main())
