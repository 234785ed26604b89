#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_tree.py and amalgamate.py on small trees, each with one mistake."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def header(name, includes=(), body="", guard=None):
    guard = guard or name.upper().replace("/", "_").replace(".", "_")
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"#ifndef {guard}", f"#define {guard}", "", "// What this is.", "",
             *includes, "", "namespace causeway { inline namespace CAUSEWAY_ABI {", body, "}}  // namespace causeway::CAUSEWAY_ABI",
             "", f"#endif  // {guard}", ""]
    return "\n".join(lines)


class Tree:
    """A tree with one header in core, one in net that includes it, and their tests: nothing to find fault with."""

    def __init__(self, folder):
        self.root = Path(folder)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("__pycache__", "*.sh"))
        self.write("include/causeway/config/version.hpp",
                   header("causeway/config/version.hpp", body="#define CAUSEWAY_VERSION_MAJOR 1\n#define "
                          "CAUSEWAY_VERSION_MINOR 2\n#define CAUSEWAY_VERSION_PATCH 3"))
        self.write("tests/consumers/main.cpp", "// SPDX-License-Identifier: Apache-2.0\n")  # stands for version.hpp
        self.add("core/low.hpp", ["#include <vector>"])
        self.add("net/high.hpp", ["#include <causeway/core/low.hpp>", "", "#include <vector>"])
        self.run("check_tree.py", "--fix-umbrella")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def add(self, name, includes=(), body="", guard=None):
        """A header and its test."""
        self.write(f"include/causeway/{name}", header(f"causeway/{name}", includes, body, guard))
        self.write(f"tests/{name}".replace(".hpp", ".cpp"),
                   f"// SPDX-License-Identifier: Apache-2.0\n#include <causeway/{name}>\n")

    def add_bodies(self, name, includes=()):
        """`name` as a header that has them."""
        folder, stem = name.split("/")
        body = f"causeway/{folder}/impl/{stem}.ipp"
        self.add(name + ".hpp", ["#include <vector>"], "CAUSEWAY_DECL int low();")
        path = self.root / f"include/causeway/{name}.hpp"
        ending = path.read_text().rindex("#endif")
        path.write_text(path.read_text()[:ending] + f"#ifndef CAUSEWAY_COMPILED\n#include <{body}>\n#endif\n\n" + path.read_text()[ending:])
        self.write(f"include/{body}", header(body, [f"#include <causeway/{name}.hpp>", *includes], "CAUSEWAY_DECL int low() { return 1; }"))

    def run(self, tool, *arguments):
        return subprocess.run([sys.executable, self.root / "tools" / tool, *arguments], capture_output=True, text=True,
                              check=False)

    def check(self):
        self.run("check_tree.py", "--fix-umbrella")
        return self.run("check_tree.py")

    def single_header(self):
        run = self.run("amalgamate.py", "--write")
        return run, (self.root / "single_include/causeway/causeway.hpp").read_text() if run.returncode == 0 else ""


class WithTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def refused(self, *words):
        run = self.tree.check()
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for word in words:
            self.assertIn(word, run.stdout)


class CheckTree(WithTree):
    def test_a_good_tree_passes(self):
        run = self.tree.check()
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)

    def test_a_lower_layer_may_not_include_a_higher_one(self):
        self.tree.add("core/low.hpp", ["#include <causeway/net/high.hpp>"])
        self.refused("include/causeway/core/low.hpp:7", "core may not include net")

    def test_siblings_may_not_include_each_other(self):
        self.tree.add("tensor/beside.hpp", ["#include <causeway/net/high.hpp>"])
        self.refused("tensor may not include net")

    def test_nobody_includes_the_side_folder(self):
        self.tree.write("include/causeway/cuda/device.cuh", header("causeway/cuda/device.cuh"))
        self.tree.write("tests/cuda/device.cpp", "// SPDX-License-Identifier: Apache-2.0\n")
        self.assertEqual(self.tree.check().returncode, 0)
        self.tree.add("train/uses.hpp", ["#include <causeway/cuda/device.cuh>"])
        self.refused("train may not include cuda")

    def test_third_party_libraries_have_one_door(self):
        self.tree.add("net/handshake_acceptor.hpp", ["#include <asio.hpp>"])
        self.assertEqual(self.tree.check().returncode, 0)
        self.tree.add("net/other.hpp", ["#include <asio/ip/tcp.hpp>"])
        self.refused("include/causeway/net/other.hpp:7", "asio is included in one place only")

    def test_a_door_is_not_reached_through_another_header(self):
        self.tree.add("net/handshake_acceptor.hpp", ["#include <asio.hpp>"])
        self.tree.add("collective/through.hpp", ["#include <causeway/net/handshake_acceptor.hpp>"])
        self.refused("include/causeway/collective/through.hpp", "needs asio through its includes")

    def test_an_unknown_library_is_refused(self):
        self.tree.add("core/uses.hpp", ["#include <boost/any.hpp>"])
        self.refused("<boost/any.hpp>: an unknown third-party library")

    def test_own_includes_are_unconditional(self):
        self.tree.add("net/high.hpp", ["#if defined(SOMETHING)", "#include <causeway/core/low.hpp>", "#endif"])
        self.refused("include/causeway/net/high.hpp:8", "not included inside #if")

    def test_own_includes_are_never_relative(self):
        self.tree.add("net/high.hpp", ['#include "low.hpp"'])
        self.refused("never relative")

    def test_a_folder_may_have_sub_folders_one_level_deep(self):
        self.tree.add("core/words/low.hpp", ["#include <causeway/core/low.hpp>"])
        self.tree.add("net/high.hpp", ["#include <causeway/core/words/low.hpp>"])
        self.assertEqual(self.tree.check().returncode, 0)
        self.tree.add("core/words/long/low.hpp", ["#include <vector>"])
        self.refused("include/causeway/core/words/long/low.hpp:1", "one level deep")

    def test_the_guard_follows_from_the_path(self):
        self.tree.add("core/low.hpp", guard="LOW_HPP")
        self.refused("the guard must be CAUSEWAY_CORE_LOW_HPP")

    def test_a_file_has_at_most_400_lines(self):
        own = header("causeway/core/low.hpp").count("\n")
        self.tree.add("core/low.hpp", body="\n" * (400 - own))
        self.assertEqual(self.tree.check().returncode, 0, self.tree.check().stdout)
        self.tree.add("core/low.hpp", body="\n" * (401 - own))
        self.refused("include/causeway/core/low.hpp:401", "the limit is 400")

    def test_each_header_has_a_test_that_includes_it_first(self):
        self.tree.write("tests/core/low.cpp", "// SPDX-License-Identifier: Apache-2.0\n#include <vector>\n")
        self.refused("tests/core/low.cpp:2", "the header under test comes first")
        (self.tree.root / "tests/core/low.cpp").unlink()
        self.refused("include/causeway/core/low.hpp:1", "write tests/core/low.cpp")

    def test_pages_and_scripts_name_paths_that_are_there(self):
        self.tree.write("tools/go.sh", "# SPDX-License-Identifier: Apache-2.0\n")
        self.tree.write("CMakePresets.json", '{"configurePresets": [{"name": "dev"}]}')
        self.tree.write("docs/how.md", "`tools/go.sh build/dev/bin/go --to tests/`, [it](../tools/go.sh), [us](https://a.b/c), tools/go_*, include/causeway/my_policy.hpp\n")
        self.assertEqual(self.tree.check().returncode, 0, self.tree.check().stdout)
        for line, what in [("run tools/gone.sh", "names tools/gone.sh"), ("[it](gone.md)", "links to gone.md"), ("build/dev/tools/go", "programs are built to bin/"),
                           ("build/fast/bin/go", "programs are built to bin/")]:
            self.tree.write("docs/how.md", "fine\n" + line + "\n")
            self.refused("docs/how.md:2", what)
        self.tree.write("docs/how.md", "fine\n")
        self.tree.write("tools/go.sh", "# SPDX-License-Identifier: Apache-2.0\nexec tools/gone.py\n")
        self.refused("tools/go.sh:2", "names tools/gone.py")

    def test_the_umbrella_is_complete(self):
        self.tree.add("core/late.hpp")
        run = self.tree.run("check_tree.py")
        self.assertEqual(run.returncode, 1)
        self.assertIn("does not list the headers as they are", run.stdout)

    def test_a_tier_has_its_folders_and_says_what_it_needs(self):
        self.tree.add("net/handshake_acceptor.hpp", ["#include <asio.hpp>"])
        self.tree.add_bodies("net/rendezvous", ["#include <causeway/net/handshake_acceptor.hpp>"])
        self.tree.add("plan/estimate.hpp", ["#include <causeway/core/low.hpp>"])
        self.assertEqual(self.tree.check().returncode, 0)
        plan, tcp = [(self.tree.root / f"include/causeway/{name}.hpp").read_text() for name in ("plan", "tcp")]
        self.assertIn("#include <causeway/plan/estimate.hpp>", plan)
        self.assertNotIn("net/", plan)
        self.assertIn('#error "causeway/tcp.hpp needs standalone asio', tcp)
        self.assertIn("#include <causeway/net/high.hpp>\n#include <causeway/net/rendezvous.hpp>", tcp)  # unconditionally
        self.assertNotIn("handshake_acceptor", tcp)  # only bodies may need asio
        self.assertEqual(self.tree.run("amalgamate.py", "--write").returncode, 0)
        single = (self.tree.root / "single_include/causeway/plan.hpp").read_text()
        self.assertIn("---- causeway/core/low.hpp", single)
        self.assertNotIn("---- causeway/net/high.hpp", single)

    def test_a_header_ends_with_its_bodies(self):
        self.tree.add_bodies("core/low")
        self.assertEqual(self.tree.check().returncode, 0, self.tree.check().stdout)
        bodies = (self.tree.root / "include/causeway/impl/src.hpp").read_text()
        self.assertIn("CAUSEWAY_PART == 1\n#include <causeway/core/impl/low.ipp>", bodies)
        self.tree.add("core/low.hpp")
        self.refused("include/causeway/core/low.hpp:", "does not end with its bodies")

    def test_a_virtual_function_with_its_body_elsewhere_is_declared_inline(self):
        self.tree.add_bodies("core/low")
        path = "include/causeway/core/low.hpp"
        text = (self.tree.root / path).read_text()
        declared = "struct a : b {\n  ~a() override = default;\n  int one() override { return 1; }\n  virtual int two() = 0;\n  int three(\n" \
                   "      int) const override;\n};"
        self.tree.write(path, text.replace("CAUSEWAY_DECL int low();", declared))
        self.refused(path + ":15", "is declared with CAUSEWAY_INLINE")
        self.tree.write(path, text.replace("CAUSEWAY_DECL int low();", declared.replace("int three", "CAUSEWAY_INLINE int three")))
        self.assertEqual(self.tree.check().returncode, 0)
        self.tree.write(path, text.replace("CAUSEWAY_DECL int low();", "template <class Whole>\n" + declared))
        self.assertEqual(self.tree.check().returncode, 0)

    def test_bodies_keep_to_the_layers_and_belong_to_one_header(self):
        self.tree.add_bodies("core/low", ["#include <causeway/net/high.hpp>"])
        self.refused("include/causeway/core/impl/low.ipp:8", "core may not include net")
        self.tree.add_bodies("core/low")
        self.tree.add("net/high.hpp", ["#include <causeway/core/impl/low.ipp>"])
        self.refused("include/causeway/net/high.hpp:7", "bodies that are not its own")

    def test_banned_words_count_in_code_only_and_can_be_allowed(self):
        self.tree.add("core/low.hpp", body='// a worker\ninline const char* text = "worker";\n'
                                           "inline int worker_count;  // tree: allow, a test")
        self.assertEqual(self.tree.check().returncode, 0)
        self.tree.add("core/low.hpp", body="inline int worker_count;")
        self.refused("`worker`")


class Amalgamate(WithTree):
    def test_each_header_comes_once_and_after_what_it_needs(self):
        run, text = self.tree.single_header()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(text.count("---- causeway/core/low.hpp"), 1)
        self.assertLess(text.index("---- causeway/core/low.hpp"), text.index("---- causeway/net/high.hpp"))
        self.assertNotIn("#include <causeway/", text)
        self.assertIn("Causeway 1.2.3", text)

    def test_a_standard_include_stays_where_it_first_occurs(self):
        _, text = self.tree.single_header()
        self.assertEqual(text.count("#include <vector>"), 1)

    def test_an_include_inside_if_does_not_stand_for_a_later_one(self):
        self.tree.add("core/low.hpp", ["#if defined(SOMETHING)", "#include <vector>", "#endif"])
        _, text = self.tree.single_header()
        self.assertEqual(text.count("#include <vector>"), 2)

    def test_own_include_inside_if_is_refused(self):
        self.tree.add("net/high.hpp", ["#if defined(SOMETHING)", "#include <causeway/core/low.hpp>", "#endif"])
        run, _ = self.tree.single_header()
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("include/causeway/net/high.hpp:8: own #include inside #if", run.stderr)

    def test_bodies_follow_their_header_and_can_be_left_out(self):
        self.tree.add_bodies("core/low", ["#include <cstdio>"])
        self.tree.add("net/high.hpp", ["#include <causeway/core/low.hpp>", "", "#include <cstdio>"])
        run, text = self.tree.single_header()
        self.assertEqual(run.returncode, 0, run.stderr)
        begin = text.index("#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)")
        self.assertLess(text.index("CAUSEWAY_DECL int low();"), begin)
        self.assertLess(begin, text.index("CAUSEWAY_DECL int low() {"))
        self.assertLess(text.index("CAUSEWAY_DECL int low() {"), text.index("---- causeway/net/high.hpp"))
        self.assertEqual(text.count("#include <cstdio>"), 2)  # the first is not always there
        self.assertNotIn("#ifndef CAUSEWAY_COMPILED", text)

    def test_doors_come_last_and_inside_their_condition(self):
        self.tree.add("kernels/onednn_gemm.hpp", ["#include <causeway/core/low.hpp>", "", "#include <dnnl.hpp>"])
        self.tree.check()
        _, text = self.tree.single_header()
        condition = text.index("#if defined(CAUSEWAY_HAS_ONEDNN)")
        self.assertLess(text.index("---- causeway/net/high.hpp"), condition)
        self.assertLess(condition, text.index("---- causeway/kernels/onednn_gemm.hpp"))
        self.assertLess(text.index("---- causeway/core/low.hpp"), condition)

    def test_what_only_bodies_need_comes_with_them(self):
        self.tree.add("net/handshake_acceptor.hpp", ["#include <causeway/net/high.hpp>", "", "#include <asio.hpp>"])
        self.tree.add_bodies("net/rendezvous", ["#include <causeway/net/handshake_acceptor.hpp>"])
        self.tree.check()
        run, text = self.tree.single_header()
        self.assertEqual(run.returncode, 0, run.stderr)
        bodies = text.index("#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)")
        self.assertLess(text.index("---- causeway/net/high.hpp"), bodies)
        self.assertLess(text.index("---- causeway/net/rendezvous.hpp"), bodies)
        self.assertLess(bodies, text.index("#include <asio.hpp>"))
        self.assertLess(text.index("#include <asio.hpp>"), text.index("---- causeway/net/impl/rendezvous.ipp"))

    def test_check_notices_a_change(self):
        self.tree.single_header()
        self.assertEqual(self.tree.run("amalgamate.py", "--check").returncode, 0)
        self.tree.add("core/low.hpp", ["#include <vector>"], "inline int changed;")
        self.assertNotEqual(self.tree.run("amalgamate.py", "--check").returncode, 0)


if __name__ == "__main__":
    unittest.main()
