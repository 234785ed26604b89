#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_docs.py on a small tree with one mistake at a time, and site_pages.py where mkdocs' YAML reader is installed."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "c++"
try:
    import yaml
except ImportError:
    yaml = None


class Docs(unittest.TestCase):
    def setUp(self):
        box = tempfile.TemporaryDirectory()
        self.addCleanup(box.cleanup)
        self.root = Path(box.name)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        self.write("examples/causeway/commands.cpp", 'command{.name = "train"}; {.name = "join"};')
        self.write("examples/causeway/plan.cpp", 'make_setting("links", x, "a file"),')
        self.write("docs/reference/settings.md", "# Settings\n\n| `data.path` | `--data` | text |\n| `comm.local_steps` |  | integer |\n")
        self.write("examples/part.cpp", "int one() {\n  int a = 1;\n  return a;\n}\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, tool, *arguments):
        return subprocess.run([sys.executable, self.root / "tools" / tool, *arguments], capture_output=True, text=True, check=False)

    def passes(self, text, *arguments):
        self.write("docs/page.md", text)
        run = self.run_tool("check_docs.py", *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)

    def refused(self, text, *words, arguments=()):
        self.write("docs/page.md", text)
        run = self.run_tool("check_docs.py", *arguments)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for word in words:
            self.assertIn(word, run.stdout)

    def test_anchors(self):
        good = "# Of `comm::rounds`, and one\n\n## Two\n\n## Two\n\n<a id=\"c1\"></a>\n\n[a](#of-commrounds-and-one) [b](page.md#two-1) [c](#c1) [d](https://a.b/#c)\n"
        self.passes(good + "\n```\n[e](#in-code)\n```\n")
        self.refused(good + "\n[e](#three)\n", "docs/page.md:11", "links to #three")
        self.refused(good + "\n[e](reference/settings.md#nothing)\n", "docs/reference/settings.md does not have")

    def test_commands_and_options(self):
        self.passes("`causeway train --data x`, `--comm.local-steps 3`, `causeway join`\n\n```sh\ncauseway join HOST:1 --links a | sort --numeric\n```\n\nThe causeway is long.\n")
        self.refused("# A\n\n```\ncauseway train --data x \\\n    --dota y\n```\n", "docs/page.md:4", "--dota")
        self.refused("`causeway tray --data x`\n", "`causeway tray`")
        self.refused("Give `--dota y`.\n", "--dota")

    def test_lists(self):
        self.passes("a\n\n- b\n- c\n  d\n\n    e\n")
        self.refused("a\n- b\n", "docs/page.md:2", "empty line")
        self.refused("- b\n\n  c\n", "docs/page.md:3", "indented by 4")

    def test_each_error_has_a_row(self):
        self.write("docs/reference/errors.md", "| number | code |\n|---|---|\n| 1 | `one` |\n| 2 | `two` |\n")
        self.write("docs/troubleshooting.md", '| <a id="one"></a>`one` |\n')
        self.refused("fine\n", "has no row for the error two")
        self.write("docs/troubleshooting.md", '| <a id="one"></a>`one` |\n| <a id="two"></a>`two` |\n')
        self.passes("fine\n")

    def test_blocks_are_parts_of_files(self):
        block = "<!-- code: examples/part.cpp -->\n```cpp\nint a = {};\nreturn a;\n```\n"
        self.passes(block.format(1))
        self.refused(block.format(2), "docs/page.md:2", "not a part of examples/part.cpp")
        self.refused(block.replace("part.cpp", "gone.cpp"), "gone.cpp, which is not there")

    def test_other_blocks_compile(self):
        self.write("tools/docs_preamble.hpp", "namespace causeway { struct thing {}; } inline causeway::thing model;\n")
        block = "<!-- before: int n = 1; -->\n```cpp\n#include <gone.hpp>\nthing t = model;\nint m = {};\n```\n\n<!-- code: declarations -->\n```cpp\nint f() {{ return 1; }}\n```\n"
        self.passes(block.format("n"), "--compile", COMPILER)
        self.refused(block.format("k"), "docs/page.md:5", "'k'", arguments=("--compile", COMPILER))
        self.refused(block.format("n").replace("return 1", "return q"), "docs/page.md:10", "'q'", arguments=("--compile", COMPILER))

    def test_links_of_a_site(self):
        self.write("site/index.html", '<a href="a.html#x">a</a><img src="b.png">')
        self.write("site/a.html", '<p id="x"></p>')
        self.write("site/b.png", "")
        self.assertEqual(self.run_tool("check_docs.py", "--site", self.root / "site").returncode, 0)
        self.write("site/a.html", '<p id="y"></p>')
        self.assertIn("no such anchor", self.run_tool("check_docs.py", "--site", self.root / "site").stdout)
        (self.root / "site/b.png").unlink()
        self.assertIn("links to b.png, which is not there", self.run_tool("check_docs.py", "--site", self.root / "site").stdout)

    @unittest.skipIf(yaml is None, "needs mkdocs' YAML reader (tools/setup.sh docs)")
    def test_the_navigation_has_every_page(self):
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/README.md", "docs/extra/one.md", "docs/extra/two.md"):
            self.write(name, "# Page\n\n[part](" + ("../" * name.count("/")) + "examples/part.cpp)\n")
        nav = "site_name: a\nnav:\n  - README.md\n  - reference/settings.md\n  - A: extra/\n  - P: project/\n  - F: files/\n"
        self.write("docs/site/mkdocs.yml", nav)
        run = self.run_tool("site_pages.py", self.root / "out")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("[part](../files/examples/part.cpp.md)", (self.root / "out/pages/extra/one.md").read_text())
        self.assertIn("int one() {", (self.root / "out/pages/files/examples/part.cpp.md").read_text())
        self.assertEqual(yaml.safe_load((self.root / "out/mkdocs.yml").read_text())["nav"][2], {"A": ["extra/one.md", "extra/two.md"]})
        self.write("docs/late.md", "# Late\n")
        self.assertIn("docs/late.md: is not in the navigation", self.run_tool("site_pages.py", self.root / "out").stdout)
        self.write("docs/site/mkdocs.yml", nav + "  - late.md\n  - gone.md\n")
        self.assertIn("names gone.md, which is not there", self.run_tool("site_pages.py", self.root / "out").stdout)
        self.write("docs/site/mkdocs.yml", nav + "  - late.md\n")
        self.write("docs/late.md", "# Late\n\n[it](../examples)\n")
        self.assertIn("docs/late.md: links to ../examples", self.run_tool("site_pages.py", self.root / "out").stdout)


if __name__ == "__main__":
    unittest.main()
