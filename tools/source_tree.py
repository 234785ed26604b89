# SPDX-License-Identifier: Apache-2.0
"""What check_tree.py and amalgamate.py both know about the source tree: headers, their includes, layers and doors."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
UMBRELLA = "causeway/causeway.hpp"
COMPILED = "causeway/impl/src.hpp"  # all bodies, for whoever compiles them once; written by check_tree.py --fix-umbrella


@dataclass(frozen=True)
class Tier:
    """A header for programs to include: all of the library or a part of it. Written by check_tree.py --fix-umbrella."""

    about: tuple  # lines of its comment
    headers: str = ""  # which of our headers, those that they include apart
    requires: tuple = ()  # doors without which it makes no sense


TIERS = {
    "causeway/train.hpp": Tier(
        ("To train with a fixed set of peers: models, optimizers, codecs, text, communication policies, the trainer, checkpoints,",
         "and a network in memory. With causeway/tcp.hpp the peers are on different machines."),
        r"nn/(?!prefix)|data/(?!k_means|document_router)|compress/(?!value_groups|group_map)|comm/(?!mirror|elastic_mirrors)|optim/(?!basis_rotation|lamb|sparse_steps)|axis/(?!own_sum|every_seconds|group_threshold)|core/(result|rng|clock)|fault/fail_stop|parallel/data_parallel\.|"
        r"train/(flat_model|trainer|checkpoint|observer)|net/(memory_)?transport\.|io/|kernels/(onednn|cblas)"),
    "causeway/tcp.hpp": Tier(
        ("To meet other peers over TCP, and the exchanges themselves: transports, rendezvous, collectives.",),
        r"net/|collective/|axis/own_sum", ("asio",)),
    "causeway/elastic.hpp": Tier(
        ("For peers that come and go during a run: membership, transfers of state, fault::quorum.",),
        r"membership/|train/(?!\w+_executors|swarm_group)|fault/"),
    "causeway/pipelines.hpp": Tier(
        ("To cut a model into stages: schedules, activation codecs, pipelines, swarms, also of peers that come and go.",), r"stage/|parallel/|train/(\w+_executors|swarm_group)"),
    "causeway/presets.hpp": Tier(("Published systems as compositions of policies.",), r"presets/"),
    "causeway/sim.hpp": Tier(("To run a whole cluster on virtual time, with faults, from a seed.",), r"sim/"),
    "causeway/plan.hpp": Tier(("To compute what a run would take: planners, placements, replays of traces.",), r"plan/"),
    UMBRELLA: Tier(("Everything. A program that includes only the tiers that it needs compiles in a fraction of the time.",), ""),
}

# A header may include its own folder and folders of strictly lower rank.
RANKS = {
    "config": 0,
    "core": 1,
    "tensor": 2, "net": 2, "io": 2,  # io knows bytes, not tensors; data and sim read files through it
    "plan": 2,  # computes about runs what would take too long to simulate; knows nothing but core
    "kernels": 3, "data": 3, "sim": 3,
    "autograd": 4, "optim": 4,
    "nn": 5, "collective": 5, "compress": 5, "membership": 5, "policy": 5,
    "axis": 6,  # the parts that communication policies are composed of
    "stage": 6,  # the parts that pipelines are composed of
    "formats": 6,  # files that other programs write and read
    "comm": 7, "parallel": 7, "fault": 7,
    "train": 8,
    "presets": 9,
}
# Folders beside the ladder: who they may include; nobody but the umbrella includes them.
SIDE = {"cuda": ("config", "core", "tensor", "net", "kernels", "optim", "collective", "compress")}
# Headers of these that a program without the toolkit includes too: the umbrella has them unconditionally.
SIDE_SEAM = ("causeway/cuda/adamw.hpp", "causeway/cuda/backend.hpp", "causeway/cuda/codec.hpp", "causeway/cuda/engine.hpp",
             "causeway/cuda/muon.hpp", "causeway/cuda/nesterov.hpp", "causeway/cuda/recording.hpp", "causeway/cuda/rows.hpp",
             "causeway/cuda/wire_codec.hpp")


@dataclass(frozen=True)
class Door:
    """A third-party library: its headers, the only own headers that may include them, and when the umbrella may."""

    includes: str
    headers: str
    condition: str
    remedy: str = ""
    hidden: bool = False  # only bodies reach it: tiers leave out the headers whose contract needs it, and get them through the others


DOORS = {
    "asio": Door(r"asio\.hpp$|asio/", r"net/(impl/)?(asio_\w+|fabric_options|handshake_acceptor|rendezvous)\.[hi]pp$",
                 "__has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__)",
                 "standalone asio (Debian: libasio-dev), and a compiler other than nvcc", hidden=True),
    "cereal": Door(r"cereal/", r"io/(impl/)?cereal_archive\.[hi]pp$",
                   "__has_include(<cereal/cereal.hpp>) && !defined(CAUSEWAY_NO_CEREAL) && !defined(__CUDACC__)"),
    "json": Door(r"nlohmann/", r"formats/(impl/)?\w+\.[hi]pp$", "defined(CAUSEWAY_HAS_JSON)"),
    "onednn": Door(r"oneapi/|dnnl", r"kernels/onednn_gemm\.hpp$", "defined(CAUSEWAY_HAS_ONEDNN)"),
    "blas": Door(r"cblas|openblas", r"kernels/cblas_gemm\.hpp$", "defined(CAUSEWAY_HAS_CBLAS)"),
    "cuda": Door(r"cuda|cub/|cublas|mma\.h|nvrtc", r"cuda/(\w+/)?\w+\.(cuh|hpp)$", "defined(__CUDACC__)"),
    "mpi": Door(r"mpi\.h$", r"(net|collective)/(impl/)?mpi_\w+\.[hi]pp$", "defined(CAUSEWAY_HAS_MPI)", hidden=True),
    "nccl": Door(r"nccl", r"cuda/nccl\.cuh$", "__has_include(<nccl.h>)"),
}

DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|include|define|pragma)\b\s*(.*?)\s*$")


@dataclass
class Include:
    line: int
    target: str  # as written between < > or quotes
    quoted: bool
    depth: int  # how many #if surround it, the header guard not counted


@dataclass
class Source:
    path: Path
    name: str  # causeway/core/rng.hpp
    text: str
    includes: list = field(default_factory=list)

    @property
    def folder(self):
        parts = self.name.split("/")
        return parts[1] if len(parts) > 2 else ""

    @property
    def lines(self):
        return self.text.splitlines()

    @property
    def guard(self):
        return re.sub(r"[^A-Z0-9]", "_", self.name.upper())

    def own_includes(self):
        return [i for i in self.includes if i.target.startswith("causeway/")]


def read(path, name):
    """Reads a source file and finds its includes."""
    source = Source(path, name, path.read_text(encoding="utf-8"))
    depth = 0
    guarded = False
    for number, line in enumerate(source.lines, 1):
        match = DIRECTIVE.match(line)
        if not match:
            continue
        word, rest = match.groups()
        if word in ("if", "ifdef", "ifndef"):
            if word == "ifndef" and not guarded and depth == 0:
                guarded = True  # the first #ifndef is the header guard
            else:
                depth += 1
        elif word == "endif":
            depth -= 1
        elif word == "include":
            target = re.match(r'[<"]([^>"]+)[>"]', rest)
            if target:
                source.includes.append(Include(number, target[1], rest.startswith('"'), depth))
    return source


def headers():
    """All headers of the library but those that are written from the others, by name."""
    found = {}
    for path in sorted(INCLUDE.rglob("*")):
        if path.suffix in (".hpp", ".cuh"):
            name = path.relative_to(INCLUDE).as_posix()
            if name not in TIERS and name != COMPILED:
                found[name] = read(path, name)
    return found


def bodies():
    """The files with the bodies of functions that are no templates, causeway/net/impl/frame.ipp of causeway/net/frame.hpp, by name."""
    names = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.ipp"))
    return {name: read(INCLUDE / name, name) for name in names}


def header_of(body):
    return body.replace("/impl/", "/").replace(".ipp", ".hpp")


def body_of(header):
    folder, _, name = header.rpartition("/")
    return f"{folder}/impl/{name.replace('.hpp', '.ipp')}"


def doors_of(name, sources, known=None, bodies=True):
    """The third-party libraries that a header needs, also through others, and its bodies. An include inside #if is no need."""
    known = {} if known is None else known
    if name in known:
        return known[name]
    known[name] = needs = set()
    source = sources[name]
    if source.folder in SIDE and name not in SIDE_SEAM:
        needs.add(source.folder)
    body = INCLUDE / body_of(name)  # which the header includes, too
    for include in source.includes + (read(body, body_of(name)).includes if bodies and body.exists() else []):
        if include.depth > 0:
            continue
        if include.target in sources:
            needs |= doors_of(include.target, sources, known, bodies)
        needs.update(d for d, door in DOORS.items() if not include.target.startswith("causeway/")
                     and re.match(door.includes, include.target))
    return needs


def rank(folder):
    return RANKS.get(folder, len(RANKS))


def by_rank(sources, names):
    """Include lines in the order of `names`, with a blank line between ranks, which clang-format keeps apart."""
    lines = []
    for i, name in enumerate(names):
        if i > 0 and rank(sources[name].folder) != rank(sources[names[i - 1]].folder):
            lines.append("")
        lines.append(f"#include <{name}>")
    return lines


def by_doors(order, sources, granted):
    """Those of `order` that any compiler can build, and the others by the third-party libraries that they need."""
    known = {}
    groups = {}
    for header in order:
        needs = doors_of(header, sources, known) - granted
        groups.setdefault(tuple(d for d in DOORS if d in needs), []).append(header)
    plain = groups.pop((), [])
    return plain, {needs: groups[needs] for needs in sorted(groups, key=lambda n: (len(n), list(DOORS).index(n[0])))}


def is_hidden(name, sources):
    return any(DOORS[d].hidden for d in doors_of(name, sources, bodies=False) if d in DOORS)


def tier_text(name, sources):
    """A tier: first all that a bare compiler can build, then one conditional block for each set of doors."""
    tier = TIERS[name]
    order = sorted((n for n in sources if re.match("causeway/(" + tier.headers + ")", n) and not is_hidden(n, sources)),
                   key=lambda n: (rank(sources[n].folder), n))
    plain, conditional = by_doors(order, sources, set(tier.requires))

    guard = re.sub(r"[^A-Z0-9]", "_", name.upper())
    text = ["// SPDX-License-Identifier: Apache-2.0", f"#ifndef {guard}", f"#define {guard}", ""]
    text += [f"// {line}" for line in tier.about]
    text += ["//", "// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is",
             "// at hand; only headers like this one may include others of ours inside #if.", ""]
    for door in tier.requires:
        text += [f"#if !({DOORS[door].condition})", f"#error \"{name} needs {DOORS[door].remedy}\"", "#endif", ""]
    text += by_rank(sources, plain)
    for needs, headers_there in conditional.items():
        text += ["", f"#if {condition_of(needs)}", *by_rank(sources, headers_there), "#endif"]
    text += ["", f"#endif  // {guard}", ""]
    return "\n".join(text)


def condition_of(needs):
    return " && ".join(DOORS[d].condition for d in needs)


def compiled_text(sources, there):
    """All bodies, a part for each folder, and one for the copies of kernels (kernels/targets.hpp)."""
    folders = sorted({there[name].folder for name in there}, key=lambda f: (rank(f), f))
    text = ["// SPDX-License-Identifier: Apache-2.0", "#ifndef CAUSEWAY_IMPL_SRC_HPP", "#define CAUSEWAY_IMPL_SRC_HPP", "",
            "// The bodies of all functions that are no templates, for one source file of a program that is compiled with",
            "// CAUSEWAY_COMPILED. With CAUSEWAY_PART, one to CAUSEWAY_PARTS, a part of them, so that several compilers can work at once.",
            "//", "// Written by tools/check_tree.py --fix-umbrella.", "",
            "#ifndef CAUSEWAY_COMPILED", "#error \"causeway/impl/src.hpp: define CAUSEWAY_COMPILED, here and for all that includes causeway\"",
            "#endif", "", f"#define CAUSEWAY_PARTS {len(folders) + 1}"]
    kernels = sorted(name for name in sources if re.search(r"^ *CAUSEWAY_(EXACT|FAST)_KERNEL\(", "\n".join(sources[name].lines), re.M))
    text += ["", f"#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == {len(folders) + 1}", "#define CAUSEWAY_DEFINE_KERNELS",
             *(f"#include <{name}>" for name in kernels), "#endif"]
    for part, folder in enumerate(folders, 1):
        order = [header_of(name) for name in there if there[name].folder == folder]
        plain, conditional = by_doors(order, sources, set())
        text += ["", f"#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == {part}"]
        text += [f"#include <{body_of(header)}>" for header in plain]
        for needs, headers_there in conditional.items():
            text += [f"#if {condition_of(needs)}", *(f"#include <{body_of(header)}>" for header in headers_there), "#endif"]
        text += ["#endif"]
    return "\n".join([*text, "", "#endif  // CAUSEWAY_IMPL_SRC_HPP", ""])


def generated(sources, there):
    """What is written from headers and bodies: name and text."""
    return {**{name: tier_text(name, sources) for name in TIERS}, COMPILED: compiled_text(sources, there)}


def out_of_date(texts):
    """Those whose file is not there, or another."""
    paths = {name: INCLUDE / name for name in texts}
    return [name for name, path in paths.items() if not path.exists() or path.read_text(encoding="utf-8") != texts[name]]


def write_generated(texts):
    """Writes what is out of date; gives the names."""
    changed = out_of_date(texts)
    for name in changed:
        (INCLUDE / name).parent.mkdir(parents=True, exist_ok=True)
        (INCLUDE / name).write_text(texts[name], encoding="utf-8")
    return changed
