#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of one machine that talk through shared memory: the bits of TCP, and processes that are killed at any moment.
usage: test_shared_memory.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, json, os, random, re, signal, subprocess, threading, unittest

from support import Program, until

# Large enough that what a peer sends to another is sent through shared memory, and exchanged all the time.
LARGE = ["--model.width", "64", "--comm.policy", "every_step", "--train.evaluate_every", "0", "--threads", "1"]


def shares_memory(pid):
    try:
        with open(f"/proc/{pid}/maps") as f:
            return "memfd:causeway" in f.read()
    except OSError:
        return False


def is_dead(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


class SharedMemory(Program):
    def setUp(self):
        super().setUp()
        self.processes = []

    def start(self, *args, where="runs"):
        p = subprocess.Popen(self.command("--run.fresh", "true", *LARGE, *args, where=where), stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        self.processes.append(p)
        return p

    def end(self, p):
        started = children(p.pid) if p.poll() is None else []
        for pid in [p.pid, *started] if p.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        if not p.stderr.closed:
            p.communicate(timeout=60)
        until(lambda: all(is_dead(child) for child in started))

    def talking(self, p, started):
        """The processes that the launcher started, once each shares memory. In a fixed run the launcher is a peer, too."""
        until(lambda: len(children(p.pid)) == started and all(shares_memory(c) for c in children(p.pid)), p)
        return children(p.pid)

    def tearDown(self):
        for p in self.processes:
            self.end(p)
        self.assertEqual(glob.glob("/dev/shm/*causeway*"), [])
        super().tearDown()

    def test_the_bits_are_those_of_tcp(self):
        for where, shared in [("memory", "true"), ("tcp", "false")]:
            p = self.start("--peers", "3", "--steps", "40", "--net.shared_memory", shared, where=where)
            seen = set()
            while p.poll() is None:
                try:
                    seen.update(shares_memory(c) for c in children(p.pid))
                except OSError:
                    break
            self.assertEqual(p.wait(timeout=60), 0, p.stderr.read())
            self.assertEqual(True in seen, where == "memory")
        for peer in range(3):
            self.assertEqual(self.checkpoint("memory", peer, 40), self.checkpoint("tcp", peer, 40))

    def test_a_peer_killed_at_any_moment_ends_a_fixed_run_clearly(self):
        chance = random.Random(3)
        for _ in range(4):
            p = self.start("--peers", "4", "--steps", "1000000")
            peers = self.talking(p, 3)
            threading.Event().wait(chance.random() / 5)
            os.kill(chance.choice(peers), signal.SIGKILL)
            _, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 1, err)
            self.assertIn("[peer_lost]", err)

    def rounds(self, peer):
        """The last round that a peer has made, by its record."""
        try:
            with open(os.path.join(self.dir, "runs", "causeway", f"peer-{peer}", "rounds.jsonl")) as f:
                lines = [line for line in f if line.endswith("}\n")]
            return json.loads(lines[-1])["round"] if lines else 0
        except FileNotFoundError:
            return 0

    def number_of(self, pid):
        for path in glob.glob(os.path.join(self.dir, "runs", "causeway", "peer-*", "address")):
            with open(path) as f:
                if int(f.read().split()[1]) == pid:
                    return int(re.search(r"peer-(\d+)", path).group(1))
        raise AssertionError(f"no peer has the process {pid}")

    def test_peers_killed_at_any_moment_do_not_end_an_elastic_run(self):
        chance = random.Random(5)
        p = self.start("--peers", "4", "--steps", "100000000", "--fault.policy", "quorum")
        left = self.talking(p, 4)
        chance.shuffle(left)
        while len(left) > 1:
            threading.Event().wait(chance.random() / 5)
            os.kill(left.pop(), signal.SIGKILL)
            last = self.number_of(left[0])
            before = self.rounds(last)
            until(lambda: self.rounds(last) >= before + 5, p)


if __name__ == "__main__":
    unittest.main()
