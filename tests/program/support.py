# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program share: where it is, a small model, a text, and a folder that goes away."""
import os, subprocess, sys, tempfile, threading, time, unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from small_text import words

OTHERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "others")  # tools/setup.sh others
sys.path.append(OTHERS)

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else "causeway"
SMALL = ["--model.layers", "2", "--model.width", "32", "--model.heads", "2", "--model.context", "32", "--data.tokenizer",
         "bytes", "--train.batch", "4", "--train.evaluate_tokens", "1024", "--sample.tokens", "8", "--comm.local_steps", "10"]


def until(done, process=None, patience=60):
    """Looks until `done` says so; a process that ends meanwhile, or `patience` seconds, are a failure."""
    pause, end = threading.Event(), time.monotonic() + patience
    while not done():
        if process is not None and process.poll() is not None and not done():
            raise AssertionError(f"it ended with {process.returncode}")
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        pause.wait(0.01)


class Program(unittest.TestCase):
    def setUp(self):
        self.box = tempfile.TemporaryDirectory()
        self.dir = self.box.name
        self.text = os.path.join(self.dir, "text.txt")
        with open(self.text, "w") as f:
            f.write(words(8000))

    def tearDown(self):
        self.box.cleanup()

    def command(self, *args, where="runs", command="train"):
        return [PROGRAM, command, "--run.directory", os.path.join(self.dir, where), "--data.path", self.text, *SMALL, *args]

    def run_it(self, *args, where="runs", **more):
        return subprocess.run(self.command(*args, where=where), capture_output=True, text=True, errors="replace", timeout=120, **more)

    def fails(self, result, code, *parts):
        """One line on stderr, with the code and the remedy. What cannot work as it was given ends with 2."""
        self.assertEqual(result.returncode, 2 if code == "invalid_argument" else 1, result.stdout + result.stderr)
        lines = [l for l in result.stderr.splitlines() if l.startswith("causeway:")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(f"[{code}]", lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def checkpoint(self, where, peer, step):
        with open(os.path.join(self.dir, where, "causeway", f"peer-{peer}", f"step-{step:08d}.ckpt"), "rb") as f:
            return f.read()
