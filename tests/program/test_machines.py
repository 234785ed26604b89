#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several machines: network namespaces with a line between them, and the command that a peer prints, pasted as it is.
usage: test_machines.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, os, re, shlex, shutil, signal, struct, subprocess, unittest

from support import PROGRAM, Program, until


def namespaces_are_allowed():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    name = f"causeway-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made


class Machine:
    """A network namespace with one end of a line, and a folder of its own."""

    def __init__(self, test, name, address):
        self.test, self.address = test, address
        self.space = f"causeway-{os.getpid()}-{name}"
        self.folder = os.path.join(test.dir, name)
        os.mkdir(self.folder)
        test.ip("netns", "add", self.space)
        test.addCleanup(lambda: subprocess.run(["ip", "netns", "del", self.space], capture_output=True))

    def wire(self, end):
        self.test.ip("link", "set", end, "netns", self.space)
        for words in [["addr", "add", self.address + "/24", "dev", end], ["link", "set", end, "up"], ["link", "set", "lo", "up"]]:
            self.test.ip("-n", self.space, *words)

    def start(self, *command):
        """As a person types it there; `causeway` is the program. Says where its output goes."""
        number = len(glob.glob(self.folder + "/out-*"))
        out, err = (os.path.join(self.folder, f"{kind}-{number}") for kind in ["out", "err"])
        with open(out, "w") as o, open(err, "w") as e:
            p = subprocess.Popen(["ip", "netns", "exec", self.space, PROGRAM, *command], cwd=self.folder, stdout=o, stderr=e, start_new_session=True)
        p.out, p.err = out, err
        self.test.started.append(p)
        return p


@unittest.skipUnless(namespaces_are_allowed(), "network namespaces are not allowed here (ip netns needs root)")
class TwoMachines(Program):
    def setUp(self):
        super().setUp()
        self.started = []
        self.here, self.there = Machine(self, "here", "10.71.0.1"), Machine(self, "there", "10.71.0.2")
        ends = [f"cw{os.getpid()}{e}" for e in "ab"]
        self.ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        self.here.wire(ends[0])
        self.there.wire(ends[1])

    def tearDown(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait(timeout=60)
        super().tearDown()

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def said(self, p, which="out"):
        with open(getattr(p, which), errors="replace") as f:
            return f.read()

    def host(self, *args):
        p = self.here.start(*self.command("--threads", "1", *args)[1:])
        until(lambda: "causeway join" in self.said(p), p)
        return p, re.search(r"^ *causeway (join .*)$", self.said(p), re.M).group(1)

    def ends(self, p, code=0):
        p.wait(timeout=90)
        self.assertEqual(p.returncode, code, self.said(p) + self.said(p, "err"))

    def the_line_joins(self, line, host, pasted=None, folder="causeway"):
        peer = self.there.start(*shlex.split(pasted or line))
        for p in [peer, host]:
            self.ends(p)
        self.assertIn("validation loss", self.said(peer))
        kept = os.path.join(self.there.folder, "runs", folder)
        with open(kept + "/tokens.bin", "rb") as ours, open(os.path.join(self.dir, "runs", folder, "tokens.bin"), "rb") as theirs:
            self.assertEqual(ours.read(), theirs.read())
        return kept

    def test_fixed_peers(self):
        host, line = self.host("--peers", "2", "--steps", "20", "--listen", "0.0.0.0:0")
        self.assertRegex(line, r"^join 10\.71\.0\.1:\d+$")
        self.the_line_joins(line, host)

    def test_peers_that_come_and_go(self):
        host, line = self.host("--peers", "2", "--steps", "20", "--listen", "0.0.0.0:0", "--fault.policy", "quorum", "--run.name", "über <all>",
                               "--run.seed", "77", "--data.tokenizer", "bpe", "--data.vocabulary", "300")
        self.assertRegex(line, r"^join 10\.71\.0\.1:\d+$")
        self.the_line_joins(line, host, folder="über <all>")

    def test_an_address_that_was_given(self):
        host, line = self.host("--peers", "2", "--steps", "20", "--listen", "10.71.0.1:0")
        self.assertRegex(line, r"^join 10\.71\.0\.1:\d+$")
        self.the_line_joins(line, host)

    def test_three_peers_reach_each_other(self):
        for more in [[], ["--fault.policy", "quorum"]]:
            with self.subTest(more):
                where = "runs" + "".join(more[1:])
                p = self.here.start(*self.command("--threads", "1", "--peers", "3", "--steps", "20", "--listen", "0.0.0.0:0", *more, where=where)[1:])
                until(lambda: "causeway join" in self.said(p), p)
                line = re.search(r"^ *causeway (join .*)$", self.said(p), re.M).group(1)
                others = [self.there.start(*shlex.split(line), "--run.directory", f"other{i}{where}", "--threads", "1") for i in range(2)]
                for q in [*others, p]:
                    self.ends(q)

    def test_an_announced_address_is_printed_and_used(self):
        # A second address of the same machine stands for that of a router.
        self.ip("-n", self.here.space, "addr", "add", "10.72.0.9/32", "dev", "lo")
        self.ip("-n", self.there.space, "route", "add", "10.72.0.9/32", "via", "10.71.0.1")
        for more in [[], ["--fault.policy", "quorum"]]:
            with self.subTest(more):
                where = "runs" + "".join(more[1:])
                p = self.here.start(*self.command("--threads", "1", "--peers", "3", "--steps", "20", "--listen", "0.0.0.0:29655", "--net.announce",
                                                  "10.72.0.9:29655", *more, where=where)[1:])
                until(lambda: "causeway join" in self.said(p), p)
                self.assertIn("causeway join 10.72.0.9:29655\n", self.said(p))
                others = [self.there.start("join", "10.72.0.9:29655", "--run.directory", f"other{i}{where}", "--threads", "1") for i in range(2)]
                for q in [*others, p]:
                    self.ends(q)

    def test_no_way_there(self):
        p = self.there.start("join", "192.0.2.7:29500", "--net.patience", "1")
        self.ends(p, 1)
        self.assertIn("[unreachable]", self.said(p, "err"))


class OneMachine(Program):
    """What does not need a second network."""

    def host(self, *args):
        p = subprocess.Popen(self.command("--listen", "127.0.0.1:0", "--threads", "1", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", start_new_session=True)
        self.addCleanup(lambda: p.poll() is None and (p.kill(), p.communicate()))
        for line in p.stdout:
            if match := re.match(r" *causeway join (\S+)$", line):
                return p, match.group(1)
        self.fail(p.stderr.read())

    def join(self, address, *args, where="other"):
        return subprocess.run([PROGRAM, "join", address, "--run.directory", os.path.join(self.dir, where), "--threads", "1", *args], capture_output=True,
                              text=True, errors="replace", timeout=90)

    def test_a_large_text_comes_in_many_pieces(self):
        from support import words
        with open(self.text, "w") as f:
            f.write(words(200000))
        host, address = self.host("--peers", "2", "--steps", "4", "--train.evaluate_tokens", "256")
        r = self.join(address)
        self.assertEqual(r.returncode, 0, r.stderr)
        host.communicate(timeout=60)
        path = os.path.join(self.dir, "other", "causeway", "tokens.bin")
        self.assertGreater(os.path.getsize(path), 20 * 60 * 1024)
        with open(path, "rb") as ours, open(os.path.join(self.dir, "runs", "causeway", "tokens.bin"), "rb") as theirs:
            self.assertEqual(ours.read(), theirs.read())

    def test_a_text_that_is_not_the_runs_is_refused(self):
        host, address = self.host("--peers", "2", "--steps", "4")
        path = os.path.join(self.dir, "runs", "causeway", "tokens.bin")
        with open(path, "r+b") as f:  # the host's disk gives something else than what the host read
            f.seek(5000)
            f.write(struct.pack("<H", 1))
        self.fails(self.join(address), "corrupt", "hash differs", "--data.path")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "other", "causeway", "tokens.bin")))
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=60)


if __name__ == "__main__":
    unittest.main()
