#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, and the first screen of README.md, command by command as the pages have them, on machines that are network namespaces
and have nothing but what the package installs. Only how much is trained is less: variables say so.
usage: test_tutorial.py PATH_OF_CAUSEWAY BUILD_FOLDER [unittest options]"""
import functools, glob, importlib.util, json, os, re, shutil, signal, subprocess, sys, tempfile, unittest
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")]
BUILD = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 and os.path.isdir(sys.argv[2]) else ""
import markdown_text
from small_text import words
from support import until
from test_machines import namespaces_are_allowed

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "tutorial.md")
LESS = {"MODEL_LAYERS": 1, "MODEL_WIDTH": 32, "MODEL_HEADS": 2, "MODEL_CONTEXT": 64, "DATA_VOCABULARY": 300, "COMM_LOCAL_STEPS": 10, "TRAIN_STEPS": 40,
        "TRAIN_EVALUATE_EVERY": 20, "TRAIN_EVALUATE_TOKENS": 1024, "SAMPLE_TOKENS": 8}


def commands():
    """The page's, in its order; each is one line."""
    with open(PAGE) as page:
        return [lines[0] if len(lines) == 1 else lines for _, info, lines in markdown_text.blocks(page.read()) if info == "sh"]


def first_screen():
    """README's commands above "A program", without what it says of them."""
    with open(os.path.join(ROOT, "README.md")) as page:
        text = page.read().split("## A program")[0]
    return [re.sub(r"\s+#.*", "", line) for _, info, lines in markdown_text.blocks(text) if info == "sh" for line in lines]


@functools.cache
def installed():
    """The prefix of the unpacked package, or, where no package can be made, of what it would have."""
    box = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(box.cleanup)
    prefix = os.path.join(box.name, "usr")
    if all(map(shutil.which, ["cpack", "dpkg-deb", "dpkg-shlibdeps"])):
        made = os.path.join(box.name, "made")
        subprocess.run(["cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-G", "DEB", "-B", made], check=True, capture_output=True)
        deb, = glob.glob(os.path.join(made, "causeway_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, box.name], check=True, capture_output=True)
    else:
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", "program"], check=True, capture_output=True)
    return prefix


class Machines(unittest.TestCase):
    def setUp(self):
        box = tempfile.TemporaryDirectory()
        self.addCleanup(box.cleanup)
        self.dir, self.started = box.name, []
        self.path = os.path.join(installed(), "bin")
        self.net("netns", "add", self.space("switch"))
        self.net("-n", self.space("switch"), "link", "add", "lan", "type", "bridge")
        self.net("-n", self.space("switch"), "link", "set", "lan", "up")
        for number, name in enumerate(["first", "second", "third"]):
            self.machine(name, f"192.168.1.{5 + number}", f"cwt{os.getpid()}{number}")
        self.addCleanup(self.end_all)

    def space(self, name):
        return f"causeway-tutorial-{os.getpid()}-{name}"

    def net(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)
        if words[:2] == ("netns", "add"):
            self.addCleanup(subprocess.run, ["ip", "netns", "del", words[2]], capture_output=True)

    def machine(self, name, address, port):
        os.mkdir(os.path.join(self.dir, name))
        self.net("netns", "add", self.space(name))
        self.net("link", "add", port, "netns", self.space("switch"), "type", "veth", "peer", "name", "eth0", "netns", self.space(name))
        self.net("-n", self.space("switch"), "link", "set", port, "master", "lan", "up")
        for words_ in (["addr", "add", address + "/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            self.net("-n", self.space(name), *words_)

    def start(self, machine, command, **less):
        """As a person types it there."""
        environment = {"PATH": self.path + ":" + os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C.UTF-8", "CAUSEWAY_NET_THREADS": "1"}
        environment |= {f"CAUSEWAY_{name}": str(value) for name, value in less.items()}
        output = open(os.path.join(self.dir, f"output-{len(self.started)}"), "w+", errors="replace")
        process = subprocess.Popen(["ip", "netns", "exec", self.space(machine), "bash", "-c", "exec " + command], cwd=os.path.join(self.dir, machine),
                                   env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        process.said = lambda: Path(output.name).read_text(errors="replace")
        self.addCleanup(output.close)
        self.started.append(process)
        return process

    def ends(self, process, patience=180):
        process.wait(timeout=patience)
        self.assertEqual(process.returncode, 0, process.said())
        return process.said()

    def do(self, machine, command, **less):
        return self.ends(self.start(machine, command, **less))

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=60)

    def check_export(self, machine):
        self.assertLessEqual({"config.json", "model.safetensors", "tokenizer.json"}, set(os.listdir(os.path.join(self.dir, machine, "out"))))

    def load(self, machine, command, text):
        if all(map(importlib.util.find_spec, ("torch", "transformers"))):
            self.assertIn(text, self.do(machine, command.replace("python3", sys.executable, 1)))
        else:
            print("left out, since torch and transformers are not installed: " + command)


needs_machines = unittest.skipUnless(namespaces_are_allowed(), "network namespaces are not allowed here (ip netns needs root)")
needs_build = unittest.skipUnless(BUILD, "needs the build folder, to install from")


@needs_machines
@needs_build
class Tutorial(Machines):
    def history(self, machine):
        path = Path(self.dir, machine, "runs", "together", "peer-0", "rounds.jsonl")
        return path.read_text().splitlines() if path.exists() else []

    def rounds(self, machine):
        """Committed rounds that a peer of a machine knows of."""
        return len(self.history(machine))

    def test_each_command_of_the_page(self):
        install, train, generate, together, join, watch, metrics, export, load = commands()
        # That it can be installed: tests/consumers/debian.py.
        self.assertEqual(install, "sudo apt-get install ./causeway_*.deb")
        os.mkdir(os.path.join(self.dir, "first", "texts"))
        for name in ("one.txt", "two.txt"):
            with open(os.path.join(self.dir, "first", "texts", name), "w") as file:
                file.write(words(6000))

        self.assertIn("validation loss", self.do("first", train, **LESS))
        self.assertTrue(os.path.exists(os.path.join(self.dir, "first", "runs", "laptop", "report.html")))
        self.assertTrue(self.do("first", generate, SAMPLE_TOKENS=8).startswith("Once upon a time"))

        host = self.start("first", together, **{**LESS, "TRAIN_STEPS": 3000})
        until(lambda: "causeway join" in host.said(), host)
        self.assertIn(join + "\n", host.said())  # what it prints is what the page says
        second, third = self.start("second", join), self.start("third", join)
        until(lambda: self.rounds("second") >= 2, host)
        table = self.do("first", watch)
        self.assertIn("together", table)
        self.assertIn("causeway_", self.do("first", metrics))
        third.kill()  # and comes back by the same line
        third.wait(timeout=60)
        before = self.rounds("second")
        until(lambda: self.rounds("second") > before, host)
        back = self.start("third", join)
        for process in (host, second, back):
            self.ends(process)
        states = {json.loads(self.history(machine)[-1])["state"] for machine in ("first", "second", "third")}
        self.assertEqual(len(states), 1, states)

        self.do("second", export)  # on any of them
        self.check_export("second")
        self.load("second", load, "Once upon a time")


@needs_machines
@needs_build
class FirstScreen(Machines):
    def test_each_command_of_readme(self):
        install, train, together, join, generate, export = first_screen()
        self.assertRegex(install, r"^tools/package\.sh && sudo apt-get install \./build/packages/causeway_\*\.deb$")
        with open(os.path.join(self.dir, "first", "book.txt"), "w") as file:
            file.write(words(9000))

        alone = self.start("first", train, **{**LESS, "TRAIN_STEPS": 3000})
        until(lambda: re.search(r"validation \d", alone.said()), alone)
        os.killpg(alone.pid, signal.SIGINT)  # Ctrl-C
        alone.wait(timeout=60)
        self.assertEqual(alone.returncode, 130, alone.said())
        again = self.start("first", train, **{**LESS, "TRAIN_STEPS": 3000})
        until(lambda: "resuming at step" in again.said(), again)
        os.killpg(again.pid, signal.SIGINT)
        again.wait(timeout=60)

        host = self.start("first", together, **LESS)
        until(lambda: "causeway join" in host.said(), host)
        self.assertIn(join + "\n", host.said())
        second = self.start("second", join)
        for process in (host, second):
            self.assertIn("validation loss", self.ends(process))
        for machine in ("first", "second"):  # "on either"
            self.assertTrue(self.do(machine, generate, SAMPLE_TOKENS=8).startswith("In the beginning"))
            self.do(machine, export)
            self.check_export(machine)
        self.load("first", "python3 -c \"from transformers import pipeline; print(pipeline('text-generation', 'out/', max_new_tokens=40)('In the')[0]['generated_text'])\"", "In the")


class Page(unittest.TestCase):
    def test_each_step_is_one_line_and_needs_no_source_tree(self):
        for command in commands():
            self.assertIsInstance(command, str, "two commands in one block")
            self.assertFalse(re.search(r"\b(build/|tools/|examples/)", command), f"needs the source tree: {command}")


if __name__ == "__main__":
    unittest.main()
