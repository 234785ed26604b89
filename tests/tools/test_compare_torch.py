#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/e2e/compare_torch.py with stand-ins for the benchmark and for interpreters that have PyTorch: who runs when, what is compared with
what, and what is said where something is missing."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench/e2e/compare_torch.py"

STAND_IN = """#!{python}
import sys
arguments = sys.argv[1:]
if arguments[0] == "-c":
    print("{version}")
    sys.exit("{broken}" or 0)
name = "ours" if arguments[0] == "--config" else "compiled" if arguments[-1].endswith("compile") else "eager"
with open("{log}", "a") as log:
    log.write(name + "\\n")
rate = dict(ours=300, eager=100, compiled=200)[name]
print(f"{{name}}: tok/s min 1.0 med {{rate}}.0 max 999.0 | ms | loss {loss} -> 4.0")
"""


class CompareTorch(unittest.TestCase):
    def setUp(self):
        box = tempfile.TemporaryDirectory()
        self.addCleanup(box.cleanup)
        self.dir = Path(box.name)
        self.program = self.stand_in("step")

    def stand_in(self, name, version="2.15.0+cpu", broken="", loss="8.0"):
        path = self.dir / name
        path.write_text(STAND_IN.format(python=sys.executable, version=version, broken=broken, loss=loss, log=self.dir / "log"))
        path.chmod(0o755)
        return str(path)

    def run_it(self, *arguments, python=None):
        return subprocess.run([sys.executable, str(SCRIPT), self.program, "--configs", "tiny", "--threads", "1", "--dtypes", "f32", "--python",
                               python or self.stand_in("python"), *arguments], capture_output=True, text=True)

    def fails(self, done, *parts):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("error: "), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr.splitlines()[-1])

    def test_all_take_turns_and_the_better_one_is_the_measure(self):
        done = self.run_it("--rounds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "log").read_text().split(), ["ours", "eager", "compiled", "compiled", "eager", "ours"])
        self.assertIn("| causeway | PyTorch 2.15.0+cpu eager | PyTorch 2.15.0+cpu compiled |", done.stdout)
        self.assertIn("| tiny | 1 | f32 | 300 | 100 | 200 | **1.50** | 0 % |", done.stdout)
        self.assertNotIn("note:", done.stderr)

    def test_one_mode(self):
        done = self.run_it("--rounds", "1", "--modes", "eager")
        self.assertIn("| tiny | 1 | f32 | 300 | 100 | **3.00** | 0 % |", done.stdout)
        self.fails(self.run_it("--modes", "lazy"), "--modes", "eager")

    def test_another_version_is_said(self):
        done = self.run_it("--rounds", "1", python=self.stand_in("old", version="1.13.1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("note: this is PyTorch 1.13.1", done.stderr)

    def test_no_pytorch(self):
        self.fails(self.run_it(python=str(self.dir / "nothing")), "No such file", "--install", "--python")
        self.fails(self.run_it(python=self.stand_in("bare", broken="ModuleNotFoundError: No module named 'torch'")), "No module named", "--install")

    def test_another_model(self):
        self.fails(self.run_it("--rounds", "1", python=self.stand_in("other", loss="7.0")), "does not start from the same loss")


if __name__ == "__main__":
    unittest.main()
