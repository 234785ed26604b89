#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/presets/ from the headers in include/causeway/presets/: a page per published system with what its comment, its
options and its type say, and an index. How it was checked and what was measured of it is taken from the pages of golden traces,
bytes, losses and claims.

usage: preset_pages.py [--check]     with --check: status 1 when the pages are not what the headers and those pages say, or a
                                     preset has no formula, no picture, or no row in docs/reference/golden_traces.md
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESETS = ROOT / "include/causeway/presets"
PAGES = ROOT / "docs/presets"
TRACES = ROOT / "docs/reference/golden_traces.md"
PROGRAM = ROOT / "examples/causeway"
BYTES, LOSSES, CLAIMS = (ROOT / f"docs/benchmarks-{name}.md" for name in ("bytes", "losses", "claims"))
# Pictures by preset; the others have that of their policy.
PICTURES = {
    **{name: "policy_periodic" for name in ("diloco", "open_diloco", "intellect1", "muloco", "local_sgd", "fedavg", "photon", "co_learning", "des_loc", "edit",
                                            "sparse_loco", "snoo", "learning_at_home")},
    **{name: "policy_every_step" for name in ("sparta", "demo", "gaia", "power_sgd", "dion", "dlion", "netstorm")},
    **{name: "policy_gossip" for name in ("noloco", "moshpit_sgd", "bacombo")},
    **{name: "policy_rounds" for name in ("streaming_diloco", "cocodc")},
    **{name: "preset_one_late" for name in ("distro", "cocktail_sgd", "stella_train")},
    **{name: "preset_gpipe" for name in ("dtfm", "aq_sgd_pipeline", "fusion_llm", "protocol_models")},
    **{name: "preset_" + name for name in ("sparta_diloco", "eager_diloco", "a_edit", "dedloc", "halos", "ravnest", "dipaco", "varuna", "crosspipe", "bamboo", "recycle",
                                           "checkfree", "checkfree_plus")},
    "learning_at_home": "policy_expert_layer",
}
# Rows of the page of claims: what they are called, and how the claim begins.
CLAIMED = {
    "diloco": [("L1", ""), ("L2", ""), ("L10", "")], "streaming_diloco": [("L3", ""), ("S1", "")], "sparse_loco": [("L4", ""), ("S3", "the same in Covenant")],
    "muloco": [("L5", "")], "noloco": [("L6", ""), ("S6", "")], "async_local_sgd": [("L7", ""), ("S8", "HALoS over DiLoCo, over asynchronous")],
    "aq_sgd_pipeline": [("L9", ""), ("S9", "AQ-SGD")], "intellect1": [("S3", "computing")], "decoupled_diloco": [("S4", "")], "dtfm": [("S5", "")],
    "bamboo": [("S7", "Bamboo")], "oobleck": [("S7", "Oobleck")], "varuna_morphing": [("S7", "Oobleck")], "recycle": [("S7", "ReCycle")],
    "halos": [("S8", "HALoS")], "crosspipe": [("S8", "CrossPipe")], "cocktail_sgd": [("S9", "CocktailSGD")], "swarm": [("S10", "")], "gaia": [("S11", "")],
}
# Measured somewhere else than in those tables.
ALSO = {
    "protocol_models": "[What a subspace costs in loss](../benchmarks-pipelines.md), and what it saves.",
    "parcae": "[Its plan on its authors' traces](../benchmarks-traces.md), under the name `proactive`.",
    "checkfree": "[Traces of preemptions](../benchmarks-traces.md), under the name `neighbour_init`.",
    "varuna": "[Its order against 1F1B](../benchmarks-pipelines.md).",
}
RUN = {"muloco": "optim::muon<>{{.momentum = 0.9F}}", "nag_pp": "optim::nadam{}", "basis_rotation": "optim::basis_rotation<>{}", "demo": "optim::sgd{}", "dedloc": "optim::lamb{}", "dion": "optim::dion{{.given = true}}", "distro": "optim::sgd{}", "stella_train": "optim::sparse_sgd{}",
       "protocol_models": "std::move(*inner)",
       "diloco_swarm": "presets::rounds_of(presets::diloco_swarm_options{}), fault::quorum{}",
       **{name: "comm::every_step<>{}, fault::quorum{}"
          for name in ("swarm", "gwtf", "skippipe", "oobleck", "varuna_morphing", "parcae", "bamboo",
                       "recycle", "checkfree", "checkfree_plus")}}
HELD = {"learning_at_home": "The same type as [local_sgd](local_sgd.md), which the conformance suite and all networks hold; with "
                            "experts in `tests/presets/experts.cpp`. Hosts, clients and failures: "
                            "[expert_layer](../policies/expert_layer.md)."}
ELSEWHERE = {"bamboo": "tests/parallel/elastic/elastic_resumed.cpp"}  # presets whose test is not in tests/presets
BEFORE = {"protocol_models": "auto inner = presets::confined_adamw(presets::protocol_models_options{}, model);",
          **{name: "env.group = mates;  // the membership of the stage, whose member_options::called_away asks policy.peer()"
             for name in ("swarm", "diloco_swarm", "gwtf", "skippipe")},
          **{name: "env.group = group;  // the membership of all peers: no quota, no budget, enters_afresh"
             for name in ("oobleck", "varuna_morphing", "parcae", "bamboo", "recycle", "checkfree", "checkfree_plus")}}
MODELS = {"petals_finetune", "petals_lora"}  # the preset makes the model; the policies are the user's
PARTS = "Build each peer's model with `parallel::part_of`. "


def comment_before(lines, i):
    text = []
    while i > 0 and lines[i - 1].startswith("///"):
        i -= 1
        text.insert(0, lines[i][4:])
    return "\n".join(text)


def told(comment):
    """What a comment says, the lines of its formula, and what it says is sent."""
    about, _, rest = comment.partition("\nFormula:\n")
    formula, _, sent = rest.partition("\nSent: ")
    return " ".join(about.split()), [line[2:] if line.startswith("  ") else line for line in formula.splitlines()], " ".join(sent.split())


def options_of(body):
    rows = []
    joined = re.sub(r"^(\s+[^/;]*[^/;{\s])\n\s+([^;]*;)", r"\1 \2", body, flags=re.M)  # a member on two lines
    for line in joined.splitlines():
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
        about, formula, sent = told(comment_before(lines, i))
        alias = re.search(rf"using {name} =\s*(.*?);", text, re.S)
        yield {
            "name": name,
            "header": path.relative_to(ROOT / "include").as_posix(),
            "about": about,
            "formula": formula,
            "sent": sent,
            "base": m[2],
            "options": options_of(body) if "{};" not in line else [],
            "type": re.sub(r"\s+", " ", alias[1]) if alias else "",
        }


def rows_of(path, begin="", end=None):
    """Cells of all rows of tables in a page, between two headings."""
    text = path.read_text()
    text = text[text.index(begin): text.index(end) if end else None]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]


def kind_of(p):
    """The policy that it is an alias of; of a swarm with local steps, what runs that."""
    return "local_swarm" if p["name"] == "diloco_swarm" else re.match(r"\w+::(\w+)", p["type"])[1]


def picture_of(p):
    policy = kind_of(p) if p["type"] else ""
    name = PICTURES.get(p["name"], "policy_" + ("tuned_model" if p["name"] in MODELS else policy))
    if not (ROOT / f"docs/images/{name}.svg").exists():
        sys.exit(f"{p['header']}: {p['name']} has no picture: docs/images/{name}.svg; give it one in tools/preset_pages.py")
    return name


def update(p):
    if not p["formula"] or not p["sent"]:
        sys.exit(f"{p['header']}: the comment of {p['name']}_options needs `Formula:` with lines below it, and `Sent: ...` at its end")
    sent = p["sent"][0].upper() + p["sent"][1:]
    return ["**The update**", "", "```text", *p["formula"], "```", "", f"**What is sent, and when.** {sent}", "",
            f"![Who does what when](../images/{picture_of(p)}.svg)", ""]


def by_name():
    """What --preset of the program takes."""
    source = {f.stem: f.read_text() for f in sorted(PROGRAM.glob("*.cpp"))}
    policies = {name for stem, text in source.items() if stem.startswith("policies")
                for name in re.findall(r"(?:composed|optimizer_preset|preset<[^>]*>)\(\s*\"(\w+)\"", text)}
    return policies | set(re.findall(r"^\s+\{\"(\w+)\",", source["named_presets"], re.M))


# What its command needs besides --preset and the usual four peers.
COMMANDS = {"checkfree_plus": "--peers 5", "petals_finetune": "--init gpt2/", "petals_lora": "--init gpt2/"}
# And what is to be known of it.
NOTES = {
    "dipaco": "The text is cut into sequences of `model.context` tokens. At the beginning they are sorted to paths by clusters of features of their first `comm.route_prefix` tokens, with `comm.route_again` later by a router that is trained "
              "on which path predicts them best; with `comm.route_top 2` each is in two shards. Where the tokenizer marks the ends of documents, the first tokens are those of the document that a sequence begins in, if it began less than a "
              "context before. Features are those of the model that the run starts from: one that was trained before (`model.init`), as in the paper, knows more about a text than fresh weights, whose features say little but which tokens "
              "there are. Paths of two levels are products of clusters of one half of the features and of the other, as in the paper: where the halves say the same, some paths get next to no documents (`train.batch` sequences at least; the program "
              "prints how many); one level (`--comm.paths 4`) or `comm.route_top 2` divides such a text better. The validation loss is that of each sequence by the path that it is sent to, over the tokens behind the prefix, so it is not that of the same tokens as other presets'.\n\n"
              "A run ends with a model for each path, whole and usable alone: path P is in the checkpoints of `peer-P` (and of `peer-P+paths`, where there are more peers than paths), beside `router-STEP.bin`. `causeway generate` sends the "
              "prompt to a path, or takes `--sample.path P`; `causeway export DIR --sample.path P` writes one for other programs. With `comm.route_within W` a text is sent anew every W tokens, by the `comm.route_prefix` before them: held-out "
              "sequences are then judged piece by piece, and in `causeway generate` the model of another path goes on (all paths' folders must be here). Training is the same. The paper routes more often at test time, too; by which tokens is not known to "
              "us. With `--fault quorum` peers come and go: each is "
              "given the path that the fewest have, sorts all documents alone, and keeps all modules; whose checkpoints are of which path is in the file `path` of each folder, and a path that nobody trains any more is not there. "
              "With `--parallel pipeline --fault quorum` (or `async_pipeline`) each pipeline trains a path: `train.batch` and `train.micro_batches` have an equal part for each, all versions are in the blocks that are saved, every pipeline judges the "
              "texts of all paths, and `--sample.path` needs the folder of blocks alone. Not built with either: `comm.route_again`.",
    "learning_at_home": "It starts servers of experts beside the peers; `causeway serve` does on other machines "
                        "([expert_layer](../policies/expert_layer.md#in-the-program)).",
    "petals_finetune": "It starts servers of the frozen model beside the client; `causeway serve` does on other machines "
                       "([tuned_model](../policies/tuned_model.md#in-the-program)).",
}
NOTES["petals_lora"] = NOTES["petals_finetune"]


def in_program(p, names):
    if p["name"] not in names:
        sys.exit(f"{p['header']}: {p['name']}: the program does not take it as --preset")
    return ["In the program, with what it sets by itself in the [settings](../reference/settings.md):", "", "```sh",
            f"causeway train --data book.txt {COMMANDS.get(p['name'], '--peers 4')} --preset {p['name']}", "```", "",
            *([NOTES[p["name"]], ""] if p["name"] in NOTES else [])]


def checked(p, traces):
    """The row of the page of golden traces, as sentences."""
    row = next((r for r in traces if r[0].startswith(f"[{p['name']}](")), None)
    if row is None:
        sys.exit(f"{TRACES.relative_to(ROOT)}: no row for {p['name']}; a preset carries a name with a trace, or a reason")
    source, steps, error, other = row[1:5]
    text = f"A [golden trace](../reference/golden_traces.md) of {steps if re.search('[a-z]', steps) else steps + ' steps'}. Source: {source}. Error: {error}."
    return ["**How it was checked**", "", text + (f" Not covered, or different: {other}." if other else ""), ""]


def figures(p, tables):
    """What was measured, beside what is published."""
    out = []
    for id_, begin in CLAIMED.get(p["name"], []):
        rows = [r for r in tables["claims"] if r[0] == id_ and r[1].startswith(begin)]
        if not rows:
            sys.exit(f"{CLAIMS.relative_to(ROOT)}: no row {id_} {begin}, which the page of {p['name']} quotes")
        for r in rows:
            published, ours = r[2], r[3].replace("](", "](../")
            out.append(f"- {r[1]}: " + (f"published {published}; " if published else "") + (f"here {ours}; " if ours else "")
                       + r[4].replace("](", "](../") + f" ({id_} of the [claims](../benchmarks-claims.md)).")
    for r in tables["bytes"]:
        if re.fullmatch(rf"`{p['name']}( [^`]*)?`", r[0]):
            out.append(f"- Bytes, `{r[0].strip('`')}`: {r[1]} a step with 2 peers, {r[2]} times less than gradients in f32"
                       + (f" (published: {r[5]})" if r[5] else "") + f"; with 8 peers {r[4]} times less. [Table](../benchmarks-bytes.md).")
    for r in tables["losses"]:
        if r[0].split(",")[0] == p["name"]:
            how = ", ".join(x for x in (*r[0].split(", ")[1:], r[1]) if x)
            out.append(f"- Loss with 8 peers{' (' + how + ')' if how else ''}: {r[4]} against gradients averaged in every step, with {r[7]} times fewer bytes. "
                       "[Table](../benchmarks-losses.md).")
    if p["name"] in ALSO:
        out.append("- " + ALSO[p["name"]])
    return ["**Figures**", "", *(out or ["No figure of its paper is measured here."]), ""]


def page(p, all_presets, tables):
    out = [f"# presets::{p['name']}", "", p["about"], "", *update(p), "**Composition** (`" + p["header"] + "`)", "",
           f"<!-- code: include/{p['header']} -->", "```cpp", f"using {p['name']} = {p['type']};", "```", ""]
    options = p["options"] or (options_from(p["base"], all_presets) if p["base"] else [])
    if options:
        out += ["| option | type | default | meaning |", "|---|---|---|---|"]
        out += [f"| `{n}` | `{t}` | `{d}` | {why} |" for n, t, d, why in options]
        out += [""]
    return "\n".join(out + used(p) + in_program(p, tables["names"]) + checked(p, tables["traces"]) + figures(p, tables) + held(p))


def used(p):
    inner = RUN.get(p["name"], "")
    begin = ["**Use**", "", "```cpp", "using namespace causeway;"]
    if p["name"] in MODELS:
        return begin + [f"auto model = presets::make(presets::{p['name']}_options{{}});  // a result<>",
                        "auto t = make_trainer(std::move(*model), std::move(env), options, optim::adamw{});", "```", ""]
    if p["type"].startswith("optim::"):
        return begin + ["auto t = make_trainer(std::move(model), std::move(env), options, presets::every_step{}, "
                        f"presets::make(presets::{p['name']}_options{{}}));", "```", ""]
    return begin + [f"auto policy = presets::make(presets::{p['name']}_options{{}});",
                    *([BEFORE[p["name"]]] if p["name"] in BEFORE else []),
                    "auto t = make_trainer(std::move(model), std::move(env), options, std::move(policy)" + (f", {inner}" if inner else "") + ");", "```", ""]


def held(p):
    test = ELSEWHERE.get(p["name"], "tests/presets/" + Path(p["header"]).stem + ".cpp")
    if p["type"].startswith("optim::"):
        return ["State: in the checkpoint, as any inner optimizer's. What is sent and what happens when a peer is lost is "
                "[comm::every_step](../policies/every_step.md)'s. Among a fixed set of peers: what a newcomer is given has not all of "
                f"its state. Held by the conformance suite and on every network in `{test}`.", ""]
    if p["name"] in HELD:
        return [HELD[p["name"]], ""]
    kind = kind_of(p)
    if p["type"].startswith("parallel::"):
        return [f"What it needs, and what it does when a peer is lost: [parallel::{kind}](../policies/{kind}.md). "
                f"{'' if kind in ('swarm', 'local_swarm', 'elastic_pipeline', 'tuned_model') else PARTS}Held in `{test}`.", ""]
    if kind == "mirrors":
        return [f"State, failure behaviour and what to evaluate: [comm::mirrors](../policies/mirrors.md). Held by `tests/comm/mirrors.cpp`, and in `{test}`.", ""]
    kind = "async_parameter_server" if kind == "async_parameter_server" else "rounds"
    return [f"State, failure behaviour and what to evaluate: [comm::{kind}](../policies/{kind}.md). Held by the conformance suite and on every network in `{test}`.", ""]


def options_from(base, all_presets):
    for p in all_presets:
        if p["name"] + "_options" == base:
            return p["options"]
    return []


def main():
    check = "--check" in sys.argv[1:]
    found = [p for path in sorted(PRESETS.glob("*.hpp")) for p in presets_of(path)]
    tables = {"traces": rows_of(TRACES), "bytes": rows_of(BYTES), "losses": rows_of(LOSSES, "**8 peers**", "**4 peers**"), "claims": rows_of(CLAIMS),
              "names": by_name()}
    pages = {p["name"] + ".md": page(p, found, tables) for p in found}
    rows = [f"| [{p['name']}]({p['name']}.md) | {p['about'].split(':')[0].split(' (')[0]} | `{p['header']}` |" for p in found]
    pages["README.md"] = "\n".join(
        ["# Presets", "", "Published systems of decentralized training, each one composition with its paper's options.", "",
         "| preset | system | header |", "|---|---|---|", *sorted(rows), "",
         "Each is replayed against a reference of its own: [golden traces](../reference/golden_traces.md). "
         "Synchronous data parallelism, the baseline, is `presets::every_step`. These pages are written by `tools/preset_pages.py`.", ""])
    stale = [name for name, text in pages.items() if not (PAGES / name).exists() or (PAGES / name).read_text() != text]
    stale += [f.name for f in PAGES.glob("*.md") if f.name not in pages]
    if check:
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
