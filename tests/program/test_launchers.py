#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that a launcher starts with one command: they make one run. mpirun where it is installed, the variables of the
others.
usage: test_launchers.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, json, os, random, re, shutil, socket, subprocess, unittest

from support import PROGRAM, Program

# What launchers set, of which nothing may come from the shell that runs the tests.
OURS = re.compile(r"^(RANK|WORLD_SIZE|LOCAL_|MASTER_|TORCHELASTIC_|SLURM_|OMPI_|PMI|JOB_COMPLETION_INDEX|CAUSEWAY_)")

ELSEWHERE = "127.0.0.2"  # leads to this machine, and no interface has it


def clean():
    return {k: v for k, v in os.environ.items() if not OURS.match(k)}


def free_port(and_next=False):
    """Below those that outgoing connections get: none of another test's takes it before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        ends = int(f.read().split()[0])
    while True:
        port = random.randrange(ends // 2, ends - 1)
        try:
            for wanted in range(port, port + 1 + and_next):
                with socket.socket() as s:
                    s.bind(("0.0.0.0", wanted))
        except OSError:
            continue
        return port


class Launchers(Program):
    def run_ranks(self, *environments, args=(), where="runs", code=0):
        """The same command for each rank, in one folder, as on one machine."""
        command = self.command("--steps", "20", *args, where=where)
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                                    env={**clean(), **{k: str(v) for k, v in e.items()}}) for e in environments]
        ended = [(*p.communicate(timeout=120), p.returncode) for p in started]
        for out, err, status in ended:
            self.assertEqual(status, code, out + err)
        return ended

    def is_one_run(self, count, where="runs", name="result.json"):
        folder = os.path.join(self.dir, where, "causeway")
        self.assertEqual(sorted(os.path.basename(p) for p in glob.glob(folder + "/peer-*")), [f"peer-{i}" for i in range(count)])
        with open(os.path.join(folder, "settings.toml")) as f:
            self.assertIn(f'peers = "{count}"', f.read())

    def states(self, where="runs"):
        found = []
        for path in glob.glob(os.path.join(self.dir, where, "causeway", "peer-*", "result.json")):
            with open(path) as f:
                found.append(json.load(f)["state"])
        return found

    def torchrun(self, port, size):
        return [{"RANK": r, "WORLD_SIZE": size, "LOCAL_RANK": r, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                for r in range(size)]

    def test_torchrun(self):
        ended = self.run_ranks(*self.torchrun(free_port(), 3))
        self.is_one_run(3)
        self.assertIn("3 peers", ended[0][0])
        self.assertEqual(sum("validation loss" in out for out, _, _ in ended), 1)  # one speaks for all

    def test_torchrun_with_peers_that_may_go(self):
        self.run_ranks(*self.torchrun(free_port(), 2), args=["--fault.policy", "quorum"])
        self.is_one_run(2)
        self.assertEqual(len(set(self.states())), 1)
        self.assertEqual(len(self.states()), 2)

    def test_behind_an_address_that_is_not_its_own_the_first_one_listens_at_all(self):
        first, second = self.torchrun(free_port(), 2)
        self.run_ranks({**first, "MASTER_ADDR": ELSEWHERE}, second)
        self.is_one_run(2)

    def test_at_its_own_address_the_first_one_opens_no_other(self):
        ranks = self.torchrun(free_port(), 2)
        with socket.socket() as other:  # of another program: the port cannot be had at all addresses
            other.bind((ELSEWHERE, ranks[0]["MASTER_PORT"]))
            other.listen()
            self.run_ranks(*ranks)
        self.is_one_run(2)

    def test_the_port_of_torchruns_own_store_is_left_alone(self):
        with socket.socket() as store:
            port = free_port(and_next=True)  # the run takes the next one
            store.bind(("127.0.0.1", port))
            store.listen()
            self.run_ranks(*[{**e, "TORCHELASTIC_USE_AGENT_STORE": "True"} for e in self.torchrun(port, 2)])
        self.is_one_run(2)

    def test_a_step_of_slurm(self):
        port = free_port()
        self.run_ranks(*[{"SLURM_PROCID": r, "SLURM_NTASKS": 2, "SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_ID": 0, "SLURM_STEP_TASKS_PER_NODE": "2",
                          "SLURM_STEP_NODELIST": "gpu[03-04]", "MASTER_PORT": port} for r in range(2)])
        self.is_one_run(2)

    def test_an_indexed_job_of_kubernetes(self):
        port = free_port()
        self.run_ranks(*[{"JOB_COMPLETION_INDEX": r, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port} for r in range(2)])
        self.is_one_run(2)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (Debian: openmpi-bin)")
    def test_mpirun(self):
        env = {**clean(), "MASTER_PORT": str(free_port()), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        r = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", *self.command("--steps", "20")], capture_output=True, text=True, errors="replace",
                           env=env, timeout=120)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(r.stdout.count("validation loss"), 1, r.stdout)
        self.is_one_run(2)


class Remains(Program):
    """What a launcher left in a shell."""

    def effective(self, **variables):
        r = subprocess.run([PROGRAM, "config", "--effective"], capture_output=True, text=True, env={**clean(), **variables}, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def trains_alone(self, **variables):
        r = self.run_it("--steps", "2", "--run.fresh", "true", env={**clean(), **variables})
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(glob.glob(os.path.join(self.dir, "runs", "causeway", "peer-*")), [os.path.join(self.dir, "runs", "causeway", "peer-0")])

    def test_exported_but_empty(self):
        self.assertRegex(self.effective(RANK="", WORLD_SIZE="", CAUSEWAY_NET_PEERS=""), r"net\.peers += 1 +# default")
        self.trains_alone(RANK="", WORLD_SIZE="", MASTER_ADDR="", MASTER_PORT="")

    def test_a_shell_of_slurm(self):
        shell = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_JOB_NODELIST": "gpu[03-06]"}
        self.assertRegex(self.effective(**shell), r"net\.peers += 1 +# default")
        self.trains_alone(**shell)
        self.trains_alone(**shell, SLURM_PROCID="0")                                 # a batch script
        self.trains_alone(**shell, SLURM_PROCID="0", SLURM_STEP_ID="4294967290")     # an interactive step
        self.trains_alone(**shell, SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1")

    def test_said_only_in_part(self):
        for variables in [{"RANK": "1"}, {"RANK": "1", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}, {"JOB_COMPLETION_INDEX": "3"},
                          {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, {"OMPI_COMM_WORLD_RANK": "1"}]:
            with self.subTest(variables):
                self.trains_alone(**variables)

    def test_what_contradicts_itself_is_said(self):
        whole = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        for variables, parts in [({"RANK": "2", "WORLD_SIZE": "2", **whole}, ["RANK", "WORLD_SIZE", "unset"]),
                                 ({"RANK": "one", "WORLD_SIZE": "2", **whole}, ["RANK", "'one'"]),
                                 ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "70000"}, ["MASTER_PORT", "65535"]),
                                 ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, ["MASTER_ADDR", "rank 0"])]:
            with self.subTest(variables):
                self.fails(self.run_it("--steps", "2", env={**clean(), **variables}), "invalid_argument", *parts)
        self.fails(self.run_it("--peers", "4", env={**clean(), "RANK": "0", "WORLD_SIZE": "2", **whole}), "invalid_argument", "--net.peers", "leave it out")

    def test_who_says_where_peers_meet_needs_no_launcher(self):
        variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        self.fails(self.run_it("--peers", "2", "--net.patience", "1", "--net.join", f"127.0.0.1:{free_port()}", env={**clean(), **variables}), "unreachable")


if __name__ == "__main__":
    unittest.main()
