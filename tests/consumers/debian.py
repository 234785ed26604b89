#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Debian packages of a build, and uses the program as one who has only the package.
usage: debian.py BUILD_FOLDER [unittest options]"""
import glob, os, re, subprocess, sys, tempfile, unittest

BUILD = os.path.abspath(sys.argv.pop(1))


def run(*command, **more):
    r = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, **more)
    assert r.returncode == 0, f"{command}\n{r.stdout}{r.stderr}"
    return r.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = tempfile.TemporaryDirectory()
        made = os.path.join(cls.box.name, "made")
        run("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-G", "DEB", "-B", made)
        cls.debs = {os.path.basename(p).split("_")[0]: p for p in glob.glob(made + "/*.deb")}
        cls.root = os.path.join(cls.box.name, "root")
        for deb in cls.debs.values():
            run("dpkg-deb", "-x", deb, cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.box.cleanup()

    def test_there_are_two_and_each_has_what_it_is_for(self):
        self.assertEqual(set(self.debs), {"causeway", "libcauseway-dev"})
        program = run("dpkg-deb", "-c", self.debs["causeway"])
        for path in ["bin/causeway", "share/man/man1/causeway.1", "share/bash-completion/completions/causeway",
                     "share/doc/causeway/docs/how_to/several_machines.md", "share/doc/causeway/LICENSE"]:
            self.assertIn(f" ./usr/{path}\n", program)
        self.assertNotIn("/include/", program)
        headers = run("dpkg-deb", "-c", self.debs["libcauseway-dev"])
        for path in ["include/causeway/causeway.hpp", "share/cmake/causeway/causewayConfig.cmake", "share/pkgconfig/causeway.pc"]:
            self.assertIn(f" ./usr/{path}\n", headers)
        self.assertNotIn("/bin/", headers)
        self.assertFalse([p for p in re.findall(r" \./(\S*)", program + headers) if p and p != "usr/" and not p.startswith("usr/")])

    def test_both_can_be_installed_and_removed(self):
        database = os.path.join(self.box.name, "system", "var", "lib", "dpkg")
        for folder in ["info", "updates"]:
            os.makedirs(os.path.join(database, folder))
        for file in ["status", "available"]:
            open(os.path.join(database, file), "w").close()
        dpkg = ["dpkg", "--root=" + os.path.join(self.box.name, "system"), "--force-depends", "--force-not-root",
                "--force-script-chrootless", "--log=" + os.devnull]
        run(*dpkg, "--install", *self.debs.values())  # fails where both have a file
        here = os.path.join(self.box.name, "system", "usr", "bin", "causeway")
        self.assertTrue(os.path.exists(here))
        run(*dpkg, "--purge", "causeway", "libcauseway-dev")
        self.assertFalse(os.path.exists(here))

    def test_dependencies_are_what_the_program_is_linked_with(self):
        fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", self.debs["causeway"]).splitlines() if line[:1].isalpha())
        self.assertEqual(fields["Version"], run(os.path.join(self.root, "usr/bin/causeway"), "--version").split()[1])
        for library in ["libc6", "libstdc++6"]:
            self.assertRegex(fields["Depends"], rf"(^|, ){re.escape(library)} \(>= ")
        needed = run("objdump", "-p", os.path.join(self.root, "usr/bin/causeway"))
        self.assertEqual("libdnnl" in needed, "libdnnl" in fields["Depends"])
        headers = run("dpkg-deb", "-f", self.debs["libcauseway-dev"])
        self.assertRegex(headers, "(?m)^Architecture: all$")
        self.assertNotRegex(headers, "(?m)^Depends:")

    def test_from_a_folder_of_texts_to_a_model_for_others_with_nothing_but_the_package(self):
        program = os.path.join(self.root, "usr/bin/causeway")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "texts"))
            for name in ["one", "two"]:
                with open(os.path.join(folder, "texts", name + ".txt"), "w") as f:
                    f.write(f"in the beginning was the word and the word was {name}. " * 400)
            small = ["--layers", "1", "--heads", "2", "--width", "32", "--context-length", "32", "--vocab-size", "300", "--eval-every", "10"]
            out = run(program, "train", "--data", "texts", "--peers", "3", "--steps", "20", "--local-steps", "10", *small, cwd=folder)
            self.assertIn("validation loss", out)
            text = run(program, "generate", "--prompt", "in the", "--tokens", "5", cwd=folder)
            self.assertTrue(text.startswith("in the"))
            run(program, "export", "out", cwd=folder)
            written = os.listdir(os.path.join(folder, "out"))
            for name in ["config.json", "model.safetensors", "tokenizer.json"]:
                self.assertIn(name, written)

    def test_the_pages_of_the_package_are_the_programs_own(self):
        program = os.path.join(self.root, "usr/bin/causeway")
        with open(os.path.join(self.root, "usr/share/bash-completion/completions/causeway")) as f:
            self.assertEqual(f.read(), run(program, "config", "completion"))


if __name__ == "__main__":
    unittest.main()
