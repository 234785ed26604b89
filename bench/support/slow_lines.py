# SPDX-License-Identifier: Apache-2.0
"""Real processes of the program on lines as slow as home connections: every peer in a network namespace of its own, all on one bridge,
and what each sends and what it receives held to so many Mbit/s by a token bucket (tc tbf). Needs root, ip and tc.

The arguments that a Lab is made with have `program`, `mbit`, and `pause`: seconds that a step waits after computing, as for a device
that this machine does not have."""

import glob
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from small_text import words

PATIENCE = 300


def check_machine():
    if os.geteuid() != 0 or not shutil.which("tc"):
        raise SystemExit("needs root, ip and tc (Debian: iproute2)")


def ip(*args, quiet=False):
    subprocess.run(["ip", *args], check=not quiet, capture_output=True)


class Machine:
    """A namespace on the bridge, whose line is as slow in both directions."""

    def __init__(self, lab, number):
        self.lab, self.number, self.address = lab, number, f"10.74.0.{number + 1}"
        self.space, self.ends = f"cwline-{os.getpid()}-{number}", (f"cwl{os.getpid() % 10000}o{number}", f"cwl{os.getpid() % 10000}i{number}")
        self.folder = os.path.join(lab.folder, f"machine-{number}")
        os.makedirs(self.folder)
        ip("netns", "add", self.space)
        ip("link", "add", self.ends[0], "netns", lab.space, "type", "veth", "peer", "name", self.ends[1], "netns", self.space)
        ip("-n", lab.space, "link", "set", self.ends[0], "master", "bridge", "up")
        for args in [["addr", "add", self.address + "/24", "dev", self.ends[1]], ["link", "set", self.ends[1], "up"], ["link", "set", "lo", "up"]]:
            ip("-n", self.space, *args)
        for space, end in zip([lab.space, self.space], self.ends):
            subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", f"{lab.args.mbit}mbit", "burst",
                            "64kb", "latency", "50ms"], check=True, capture_output=True)

    def start(self, *command):
        env = dict(os.environ, CAUSEWAY_FAILPOINT=f"pause:{int(1000 * self.lab.args.pause)}")
        self.out = os.path.join(self.folder, "out")
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(["ip", "netns", "exec", self.space, self.lab.args.program, *command, "--threads", "1"], stdout=out,
                                            stderr=subprocess.STDOUT, cwd=self.folder, env=env, start_new_session=True)
        self.lab.processes.append(self.process)
        return time.monotonic_ns()

    def said(self):
        with open(self.out, errors="replace") as f:
            return f.read()

    def commits(self):
        """(moment, round, members) of all commits that this peer noted."""
        found = []
        for path in glob.glob(os.path.join(self.folder, "runs", "*", "peer-*", "journal.txt")):
            with open(path) as f:
                for line in f:
                    if line.endswith("\n") and " commit " in line:
                        at = int(line.split(" ", 1)[0])
                        members = re.search(r" members=(\S+)", line)
                        found.append((at, int((re.search(r" round=(\d+)", line) or [0, 0])[1]), members[1].split(",") if members else []))
        return found


class Lab:
    def __init__(self, args, folder):
        self.args, self.folder, self.space, self.processes, self.machines = args, folder, f"cwline-{os.getpid()}-net", [], []
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.space, "link", "set", "bridge", "up")

    def machine(self):
        self.machines.append(Machine(self, len(self.machines)))
        return self.machines[-1]

    def found_run(self, members, settings, joins_with=()):
        """So many peers of one run under fault::quorum, a machine each; gives the address to join at."""
        text = os.path.join(self.folder, "text.txt")
        with open(text, "w") as f:
            f.write(words(20000))
        founder = self.machine()
        founder.start("train", "--peers", str(members), "--listen", f"{founder.address}:0", "--data.path", text, "--fault.policy", "quorum", *settings)
        address = until("the founder listens", lambda: (re.search(r"causeway join (\S+)", founder.said()) or [0, 0])[1])
        for _ in range(members - 1):
            self.machine().start("join", address, *joins_with)
        return address

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
        for m in self.machines:
            ip("netns", "del", m.space, quiet=True)
        ip("netns", "del", self.space, quiet=True)


def until(what, done):
    end = time.monotonic() + PATIENCE
    while not (found := done()):
        if time.monotonic() > end:
            raise SystemExit(f"it took more than {PATIENCE} s: {what}")
        time.sleep(0.05)
    return found
