#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/presets/ from the headers in include/causeway/presets/: a page per published system with what its comment, its
options and its type say, and an index.

usage: preset_pages.py [--check]     with --check: status 1 when the pages are not what the headers say, or a preset has no row
                                     in docs/reference/golden_traces.md
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESETS = ROOT / "include/causeway/presets"
PAGES = ROOT / "docs/presets"
TRACES = ROOT / "docs/reference/golden_traces.md"
RUN = {"muloco": "optim::muon<>{{.momentum = 0.9F}}", "nag_pp": "optim::nadam{}", "demo": "optim::sgd{}", "dion": "optim::dion{{.given = true}}", "distro": "optim::sgd{}",
       "protocol_models": "std::move(*inner)",
       "diloco_swarm": "presets::rounds_of(presets::diloco_swarm_options{}), fault::quorum{}",
       **{name: "comm::every_step<>{}, fault::quorum{}"
          for name in ("swarm", "gwtf", "oobleck", "varuna_morphing", "parcae", "bamboo",
                       "recycle", "checkfree")}}
HELD = {"learning_at_home": "The same type as [local_sgd](local_sgd.md), which the conformance suite and all networks hold; with "
                            "experts in `tests/presets/experts.cpp`. Hosts, clients and failures: "
                            "[expert_layer](../policies/expert_layer.md)."}
ELSEWHERE = {"bamboo": "tests/parallel/elastic_resumed.cpp"}  # presets whose test is not in tests/presets
BEFORE = {"protocol_models": "auto inner = presets::confined_adamw(presets::protocol_models_options{}, model);",
          **{name: "env.group = std::make_shared<swarm_group>(mates, policy.peer(), disk, folder);  // mates: the membership of the stage"
             for name in ("swarm", "diloco_swarm", "gwtf")},
          **{name: "env.group = crew;  // a crew_group over the membership of all peers, also the options' `peers`"
             for name in ("oobleck", "varuna_morphing", "parcae", "bamboo", "recycle", "checkfree")}}
MODELS = {"petals_finetune", "petals_lora"}  # the preset makes the model; the policies are the user's
UNMEASURED = {"dipaco", "dion", "edit"}  # no row in bench/comm/bytes.cpp
PARTS = "Build each peer's model with `parallel::part_of`. "


def comment_before(lines, i):
    text = []
    while i > 0 and lines[i - 1].startswith("///"):
        i -= 1
        text.insert(0, lines[i][3:].strip())
    return " ".join(text)


def options_of(body):
    rows = []
    for line in body.splitlines():
        m = re.match(r"\s+(\S.*?)\s+(\w+)(?: = ([^;]*?)|(\{[^;]*\}))?;\s*(?:///<\s*(.*))?$", line)
        if m:
            rows.append((m[2], m[1], (m[3] or m[4] or "").strip(), m[5] or ""))
    return rows


def presets_of(path):
    text = path.read_text()
    lines = text.splitlines()
    for i, line in enumerate(lines):
        m = re.match(r"struct (\w+)_options(?: : (\w+))? \{", line)
        if not m:
            continue
        name = m[1]
        body = text[text.index(line):]
        body = body[: body.index("}")] if line.rstrip().endswith("{};") or "{}" in line else body[: body.index("\n};")]
        alias = re.search(rf"using {name} =\s*(.*?);", text, re.S)
        yield {
            "name": name,
            "header": path.relative_to(ROOT / "include").as_posix(),
            "about": comment_before(lines, i),
            "base": m[2],
            "options": options_of(body) if "{};" not in line else [],
            "type": re.sub(r"\s+", " ", alias[1]) if alias else "",
        }


def page(p, all_presets):
    options = p["options"] or (options_from(p["base"], all_presets) if p["base"] else [])
    inner = RUN.get(p["name"], "")
    out = [f"# presets::{p['name']}", "", p["about"], "", "**Composition** (`" + p["header"] + "`)", "", f"<!-- code: include/{p['header']} -->", "```cpp",
           f"using {p['name']} = {p['type']};", "```", ""]
    if options:
        out += ["| option | type | default | meaning |", "|---|---|---|---|"]
        out += [f"| `{n}` | `{t}` | `{d}` | {why} |" for n, t, d, why in options]
        out += [""]
    if p["name"] in MODELS:
        out += ["**Use**", "", "```cpp", "using namespace causeway;",
                f"auto model = presets::make(presets::{p['name']}_options{{}});  // a result<>",
                "auto t = make_trainer(std::move(*model), std::move(env), options, optim::adamw{});", "```", ""]
        return "\n".join(out + held_by(p))
    if p["type"].startswith("optim::"):
        out += ["**Use**", "", "```cpp", "using namespace causeway;",
                "auto t = make_trainer(std::move(model), std::move(env), options, presets::every_step{}, "
                f"presets::make(presets::{p['name']}_options{{}}));", "```", "",
                "State: in the checkpoint, as any inner optimizer's. What is sent and what happens when a peer is lost is "
                "[comm::every_step](../policies/every_step.md)'s. Among a fixed set of peers: what a newcomer is given has not all of "
                f"its state. Held by the conformance suite and on every network in `tests/presets/{Path(p['header']).stem}.cpp`.", ""]
        return "\n".join(out)
    out += ["**Use**", "", "```cpp", "using namespace causeway;",
            f"auto policy = presets::make(presets::{p['name']}_options{{}});",
            *([BEFORE[p["name"]]] if p["name"] in BEFORE else []),
            "auto t = make_trainer(std::move(model), std::move(env), options, std::move(policy)" + (f", {inner}" if inner else "") + ");", "```", ""]
    if p["type"].startswith("parallel::"):
        return "\n".join(out + held_by(p))
    if p["name"] in HELD:
        return "\n".join([*out, HELD[p["name"]], ""])
    kind = "async_parameter_server" if "async_parameter_server" in p["type"] else "rounds"
    measured = "" if p["name"] in UNMEASURED else "Bytes: [measured](../benchmarks-bytes.md). "
    out += [f"Who talks when: [a picture](../policies/README.md#comm{kind}). State, failure behaviour and what to evaluate: [comm::{kind}](../policies/{kind}.md). {measured}Held by the conformance suite and on every network in "
            f"`tests/presets/{Path(p['header']).stem}.cpp`.", ""]
    return "\n".join(out)


def held_by(p):
    kind = re.match(r"parallel::(\w+)", p["type"])[1]
    return [f"Who talks when, what it needs and sends, and what it does when a peer is lost: [parallel::{kind}](../policies/{kind}.md). "
            f"{'' if kind in ('swarm', 'local_swarm', 'elastic_pipeline', 'tuned_model') else PARTS}"
            f"Held in `{ELSEWHERE.get(p['name'], 'tests/presets/' + Path(p['header']).stem + '.cpp')}`.", ""]


def options_from(base, all_presets):
    for p in all_presets:
        if p["name"] + "_options" == base:
            return p["options"]
    return []


def main():
    check = "--check" in sys.argv[1:]
    found = [p for path in sorted(PRESETS.glob("*.hpp")) for p in presets_of(path)]
    pages = {p["name"] + ".md": page(p, found) for p in found}
    rows = [f"| [{p['name']}]({p['name']}.md) | {p['about'].split(':')[0].split(' (')[0]} | `{p['header']}` |" for p in found]
    pages["README.md"] = "\n".join(
        ["# Presets", "", "Published systems of decentralized training, each one composition with its paper's options.", "",
         "| preset | system | header |", "|---|---|---|", *sorted(rows), "",
         "Each is replayed against a reference of its own: [golden traces](../reference/golden_traces.md). "
         "Synchronous data parallelism, the baseline, is `presets::every_step`. These pages are written by `tools/preset_pages.py`.", ""])
    stale = [name for name, text in pages.items() if not (PAGES / name).exists() or (PAGES / name).read_text() != text]
    stale += [f.name for f in PAGES.glob("*.md") if f.name not in pages]
    if check:
        table = TRACES.read_text()
        rowless = [p["name"] for p in found if f"[{p['name']}](../presets/{p['name']}.md)" not in table]
        if rowless:
            sys.exit(f"{TRACES.relative_to(ROOT)}: no row for {', '.join(rowless)}; a preset carries a name with a trace, or a reason")
        if stale:
            sys.exit(f"docs/presets: not what the headers say: {', '.join(sorted(stale))}; run tools/preset_pages.py")
        return
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in pages:
            (PAGES / name).write_text(pages[name])
        else:
            (PAGES / name).unlink()
    print(f"docs/presets: {len(pages)} pages, {len(stale)} written")


if __name__ == "__main__":
    main()
