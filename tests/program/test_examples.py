#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example 02_two_peers, where something is wrong: one clear line each.
usage: test_examples.py PATH_OF_02_TWO_PEERS [unittest options]"""
import os, socket, subprocess, sys, tempfile, unittest

EXAMPLE = os.path.abspath(sys.argv.pop(1))


class Example(unittest.TestCase):
    def says(self, code, part, *arguments):
        r = subprocess.run([EXAMPLE, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        self.assertEqual(r.stderr, "")
        self.assertEqual(len(r.stdout.splitlines()), 1, r.stdout)
        self.assertIn(part, r.stdout)

    def test_one_line_says_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
            text = os.path.join(folder, "text.txt")
            with open(text, "w") as f:
                f.write("all work and no play " * 1000)
            try:
                taken.bind(("127.0.0.1", 29500))
                taken.listen()
            except OSError:
                pass  # somebody else has it: as good
            self.says(2, "usage")
            self.says(1, "[not_found]", text + ".none")
            self.says(1, "[address_in_use]", text)
            self.says(1, "[invalid_argument]", text, "nowhere")


if __name__ == "__main__":
    unittest.main()
