#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the program may write and delete, and what a run's folder says of the run.
usage: test_folders.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, os, re, signal, subprocess, unittest

from support import PROGRAM, Program, until


class Names(Program):
    def test_a_name_is_one_plain_component(self):
        outside = os.path.join(self.dir, "precious")
        with open(outside, "w") as f:
            f.write("not a run")
        for name in ["..", ".", "../runs", "a/b", "/tmp/run", ".hidden", "a\\b", "a\nb", "", "x" * 101]:
            for more in [[], ["--fault.policy", "quorum"]]:
                with self.subTest(name=name, more=more):
                    before = self.tree()
                    self.fails(self.run_it("--steps", "1", "--run.name", name, "--run.fresh", "true", *more), "invalid_argument", "run.name")
                    self.assertEqual(self.tree(), before)

    def test_no_command_takes_such_a_name(self):
        before = self.tree()
        for command in [["join", "127.0.0.1:1", "--fault.policy", "quorum"], ["join", "127.0.0.1:1"], ["generate"], ["peer", "--net.index", "0"]]:
            with self.subTest(command):
                r = subprocess.run([PROGRAM, *command, "--run.directory", os.path.join(self.dir, "runs"), "--net.patience", "1", "--run.name", ".."],
                                   capture_output=True, text=True, timeout=60)
                self.fails(r, "invalid_argument", "run.name")
                self.assertEqual(self.tree(), before)

    def tree(self):
        return sorted(glob.glob(os.path.join(self.dir, "**"), recursive=True, include_hidden=True))

    def test_a_name_may_have_spaces_and_letters_of_any_language(self):
        r = self.run_it("--steps", "2", "--run.name", "Zwölf & <so weiter>")
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(os.path.join(self.dir, "runs", "Zwölf & <so weiter>", "loss.svg"), encoding="utf-8") as f:
            picture = f.read()
        self.assertIn("Zwölf &amp; &lt;so weiter&gt;: 1 peers", picture)
        import xml.dom.minidom
        xml.dom.minidom.parseString(picture.encode())


class Deleting(Program):
    FRESH = ["--steps", "2", "--run.fresh", "true"]

    def test_what_is_no_run_is_not_deleted(self):
        folder = os.path.join(self.dir, "runs", "thesis")
        os.makedirs(folder)
        with open(os.path.join(folder, "chapter1.txt"), "w") as f:
            f.write("years of work")
        for more in [[], ["--fault.policy", "quorum"]]:
            self.fails(self.run_it("--run.name", "thesis", *self.FRESH, *more), "invalid_argument", "thesis", "--run.name")
            self.assertEqual(os.listdir(folder), ["chapter1.txt"])

    def test_a_run_is_deleted_and_begins_again(self):
        for more in [[], ["--fault.policy", "quorum"]]:
            with self.subTest(more):
                where = "runs" + "".join(more[1:])
                self.assertEqual(self.run_it("--steps", "4", "--peers", "2", *more, where=where).returncode, 0)
                old = os.path.join(self.dir, where, "causeway", "peer-0", "mine.txt")
                with open(old, "w") as f:
                    f.write("of the first run")
                r = self.run_it("--peers", "2", *self.FRESH, *more, where=where)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertFalse(os.path.exists(old))
                self.assertNotIn("resuming", r.stdout)

    def test_an_empty_folder_may_be_taken(self):
        os.makedirs(os.path.join(self.dir, "runs", "causeway"))
        r = self.run_it(*self.FRESH)
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_run_that_somebody_trains_is_not_deleted(self):
        for more in [[], ["--fault.policy", "quorum"]]:
            with self.subTest(more):
                where = "live" + "".join(more[1:])
                p = subprocess.Popen(self.command("--peers", "2", "--steps", "100000000", *more, where=where), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
                folder = os.path.join(self.dir, where, "causeway")
                try:
                    until(lambda: all(os.path.exists(os.path.join(folder, f"peer-{i}", "metrics.jsonl" if more else "lock"))
                                      for i in range(2)), p)
                    kept = sorted(os.listdir(folder))
                    self.fails(self.run_it(*self.FRESH, *more, where=where), "invalid_argument", "peer-", "runs", "stop it")
                    self.assertLessEqual(set(kept), set(os.listdir(folder)))
                finally:
                    p.send_signal(signal.SIGINT)
                    p.communicate(timeout=60)


class Describing(Program):
    def generate(self, *args, where="runs"):
        return subprocess.run([PROGRAM, "generate", "--run.directory", os.path.join(self.dir, where), *args], capture_output=True, text=True,
                              errors="replace", timeout=60)

    def test_generate_needs_only_the_name(self):
        for policy in [[], ["--fault.policy", "quorum", "--peers", "2"]]:
            with self.subTest(policy):
                name = "named" + str(len(policy))
                self.assertEqual(self.run_it("--steps", "10", "--run.name", name, *policy).returncode, 0)
                g = self.generate("--run.name", name, "--prompt", "the sea")
                self.assertEqual(g.returncode, 0, g.stderr)
                self.assertTrue(g.stdout.startswith("the sea"), g.stdout)
                self.assertLessEqual(len(g.stdout), len("the sea") + 8 + 1)  # sample.tokens of the run, too

    def test_a_run_that_is_not_there(self):
        self.fails(self.generate("--run.name", "nothing"), "not_found", "nothing", "train")

    def test_what_is_given_wins(self):
        self.assertEqual(self.run_it("--steps", "2").returncode, 0)
        g = self.generate("--prompt", "sea", "--sample.tokens", "3")
        self.assertEqual(g.returncode, 0, g.stderr)
        self.assertLessEqual(len(g.stdout), 3 + 3 + 1)
        self.fails(self.generate("--model.layers", "3"), "wrong_model", "shapes")


if __name__ == "__main__":
    unittest.main()
