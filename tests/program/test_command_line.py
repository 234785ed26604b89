#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help, aliases, errors and generated pages of the program `causeway`.
usage: test_command_line.py PATH_OF_CAUSEWAY [unittest options]"""
import os, re, shutil, subprocess, tempfile, unittest

from support import PROGRAM

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "settings.md")


def causeway(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, errors="replace", timeout=60)


def output(*args):
    r = causeway(*args)
    assert r.returncode == 0, r.stderr
    return r.stdout


def settings():
    """Name, alias, type and allowed values of each, from the page that the program writes."""
    page = output("config", "reference").split("## What goes together")[0]
    rows = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in page.splitlines() if line.startswith("| `")]
    return [(r[0].strip("`"), r[1].strip("`-"), r[2], r[3].replace("\\|", "|")) for r in rows]


class Help(unittest.TestCase):
    def commands(self):
        return re.findall(r"^  ([a-z-]+) {2,}\S", output("help"), re.M)

    def test_without_a_command_it_says_what_there_is_and_that_this_was_wrong_use(self):
        r = causeway()
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertEqual(r.stderr, output("help"))
        self.assertEqual(output("--help"), output("help"))
        self.assertLess(len(r.stderr.splitlines()), 30)
        self.assertLessEqual({"train", "join", "generate", "export", "simulate", "plan", "replay", "schedule", "check-journal", "config"},
                             set(self.commands()))

    def test_each_command_has_help_with_an_example(self):
        for name in self.commands():
            with self.subTest(name):
                text = output(name, "--help")
                self.assertEqual(output("help", name), text)
                self.assertTrue(text.startswith(f"causeway {name} "))
                self.assertIn(f"\nExamples:\n  causeway {name} ", text)
                self.assertLessEqual(max(map(len, text.splitlines())), 105)

    def test_train_shows_the_common_settings_and_all_when_asked(self):
        short, whole = output("train", "--help"), output("train", "--help-all")
        shown = re.findall(r"^  --(?:[\w-]+, --)?([\w.]+)", short, re.M)
        self.assertTrue(15 <= len(shown) <= 26, shown)
        self.assertIn("--help-all", short)
        everything = [name for name, *_ in settings()]
        self.assertEqual(re.findall(r"^  --(?:[\w-]+, --)?([\w.]+)", whole, re.M), everything)
        for policy in ["every_step", "streaming_diloco", "noloco"]:
            self.assertIn(policy, whole)

    def test_settings_of_examples_exist(self):
        for name in self.commands():
            for line in re.findall(r"^  causeway (.*)$", output(name, "--help").split("Examples:")[1], re.M):
                words = [w for w in line.split() if w.startswith("--")]
                options = output(name, "--help-all")
                for word in words:
                    self.assertRegex(options, rf"(?m){re.escape(word)}(,| |$)", line)


class Flags(unittest.TestCase):
    def test_every_alias_is_its_setting(self):
        aliases = [(name, alias) for name, alias, *_ in settings() if alias]
        self.assertEqual(len({alias for _, alias in aliases}), len(aliases))
        shown = dict(re.findall(r"^([\w.]+) += (.*?) +# ", output("config"), re.M))
        for name, alias in aliases:
            with self.subTest(alias):
                self.assertIn(f"# --{name}\n", output("config", f"--{alias}={shown[name]}"))

    def test_the_usual_short_names(self):
        text = output("config", "--lr", "0.01", "--batch-size", "4", "--layers", "6", "--data", "book.txt", "--steps", "7", "--peers", "3",
                      "--comm.local-steps", "9")
        for name, value in [("train.learning_rate", "0.01"), ("train.batch", "4"), ("model.layers", "6"), ("data.path", "book.txt"),
                            ("train.steps", "7"), ("net.peers", "3"), ("comm.local_steps", "9")]:
            self.assertRegex(text, rf"(?m)^{re.escape(name)} += {value} +# --{name}$")

    def test_a_switch_does_not_eat_what_follows_it(self):
        r = causeway("export", "--quiet", "out", "--name", "no-such-run")
        self.assertIn("no trained run of this name", r.stderr)
        self.assertRegex(output("config", "--quiet", "false"), r"quiet += false +# --quiet")


class Errors(unittest.TestCase):
    def wrong(self, *args):
        r = causeway(*args)
        self.assertEqual(r.returncode, 2, r.stdout + r.stderr)
        self.assertEqual(r.stdout, "")
        lines = r.stderr.splitlines()
        self.assertEqual(len(lines), 1, r.stderr)
        self.assertRegex(lines[0], r"^causeway: .+: .+ \[invalid_argument\]$")
        return lines[0]

    def test_what_was_probably_meant_is_named(self):
        for args, meant in [(["trian"], "train"), (["help", "exprot"], "export"), (["train", "--model.layres", "3"], "model.layers"),
                            (["train", "--batchsize", "3"], "batch-size"), (["train", "--local_step", "3"], "local-steps"),
                            (["train", "--training.warmup", "3"], "train.warmup"),
                            (["train", "--train.lr", "3"], "train.learning_rate"), (["train", "--comm.momentum", "3"], "comm.outer_momentum"), (["schedule", "--micro-batch", "3"], "micro-batches"),
                            (["plan", "--device", "x.csv"], "devices")]:
            with self.subTest(args):
                self.assertIn(f"did you mean {meant}?", self.wrong(*args))
        for none in ("--frobnicate", "--comm.h"):
            self.assertNotIn("did you mean", self.wrong("train", none, "3"))

    def test_wrong_use_is_one_line_of_one_grammar(self):
        self.assertIn("needs a value", self.wrong("train", "--lr"))
        self.assertIn("an integer, 1 or more", self.wrong("train", "--layers", "many"))
        self.assertIn("use 1 or more", self.wrong("train", "--layers", "0"))
        self.assertIn("use more than 0", self.wrong("train", "--lr", "0"))
        self.assertIn("--data", self.wrong("train", "book.txt"))
        self.assertIn("HOST:PORT", self.wrong("join"))
        self.assertIn("causeway export DIR", self.wrong("export"))
        self.assertIn("reference, completion or manual", self.wrong("config", "everything"))
        self.assertIn("is not an option", self.wrong("schedule", "1f1b"))
        self.assertIn("say what to do", self.wrong("--peers", "3"))

    def test_values_that_are_not_among_the_words_are_refused_with_the_words(self):
        chosen = [(name, allowed) for name, _, kind, allowed in settings() if " or " in allowed and "more" not in allowed
                  and name != "data.tokenizer"]  # which takes the path of a folder, too
        self.assertGreater(len(chosen), 12)
        for name, allowed in chosen:
            with self.subTest(name):
                self.assertIn(f"{name}: 'nonsense'; use {allowed} [", self.wrong("train", f"--{name}", "nonsense"))


class Pages(unittest.TestCase):
    def test_the_page_of_settings_is_what_the_program_writes(self):
        with open(PAGE) as f:
            self.assertEqual(f.read(), output("config", "reference"), "write it anew: causeway config reference > docs/reference/settings.md")

    def complete(self, *words):
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _causeway; printf "%s\\n" "${COMPREPLY[@]}"'
        with tempfile.NamedTemporaryFile("w", suffix=".bash") as f:
            f.write(output("config", "completion"))
            f.flush()
            r = subprocess.run(["bash", "-c", script, "bash", f.name, "causeway", *words], capture_output=True, text=True)
        self.assertEqual(r.stderr, "")
        return r.stdout.split()

    def test_bash_completes_commands_settings_and_values(self):
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(self.complete("help", "exp"), ["export"])
        self.assertEqual(self.complete("train", "--batch"), ["--batch-size"])
        self.assertEqual(self.complete("train", "--fault", ""), ["fail_stop", "restart", "quorum"])
        self.assertIn("streaming_diloco", self.complete("train", "--comm.policy", "str"))
        self.assertEqual(self.complete("schedule", "--micro"), ["--micro-batches"])
        self.assertEqual(self.complete("train", "--data", os.path.join(os.path.dirname(PAGE), "setting")), [PAGE.replace("/docs/../", "/")])

    @unittest.skipUnless(shutil.which("groff"), "groff reads it")
    def test_the_manual_page_is_well_formed(self):
        r = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=output("config", "manual"), capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        plain = re.sub(".\x08", "", r.stdout).replace("\u2010", "-").replace("\u2212", "-")  # bold is letters over themselves
        for name in ["causeway train", "check-journal", "--lr, --train.learning_rate"]:
            self.assertIn(name, plain)


if __name__ == "__main__":
    unittest.main()
