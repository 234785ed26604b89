#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as the ranks of MPI jobs: one run, sites of several ranks, sites that are killed and come back. With the mpirun
of the MPI that the program is linked with; skipped where it has none. CAUSEWAY_SITE_KILLS says how often a site is killed.
usage: test_mpi.py PATH_OF_CAUSEWAY [unittest options]"""
import filecmp, glob, json, os, random, re, shutil, signal, subprocess, unittest

from support import PROGRAM, Program, until
from test_launchers import ELSEWHERE, clean, free_port

LIBRARIES = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout
OWN = "openmpi" if "libmpi.so" in LIBRARIES else "mpich" if "libmpich.so" in LIBRARIES else ""
MPIRUN = shutil.which("mpirun." + OWN) if OWN else None
OTHER = shutil.which("mpirun." + ("mpich" if OWN == "openmpi" else "openmpi"))


def environment(**more):
    return {**clean(), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MASTER_PORT": str(free_port()), **more}


def launch(ranks, mpirun=None):
    mpirun = mpirun or MPIRUN
    return [mpirun, *(["--oversubscribe"] if mpirun.endswith("openmpi") else []), "-n", str(ranks)]


def validation(output):
    return float(re.search(r"validation loss ([0-9.]+)", output).group(1))


@unittest.skipUnless(MPIRUN, "the program has no MPI, or its mpirun is not installed (Debian: libopenmpi-dev or libmpich-dev)")
class Ranks(Program):
    def ranks(self, ranks, *args, where="runs", mpirun=None):
        return subprocess.run([*launch(ranks, mpirun), *self.command("--steps", "20", *args, where=where)], capture_output=True, text=True,
                              errors="replace", env=environment(), timeout=120)

    def trains(self, ranks, *args, where="runs"):
        r = self.ranks(ranks, *args, where=where)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(r.stdout.count("validation loss"), 1, r.stdout)
        return r.stdout

    def saved(self, where, peer):
        return os.path.join(self.dir, where, "causeway", f"peer-{peer}", "step-00000020.ckpt")

    def says(self, result, *parts):
        """One line, whoever of the ranks it is that says it; no job that hangs; and no run that goes on."""
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        lines = [l for l in result.stderr.splitlines() if "causeway:" in l]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("causeway: ") and lines[0].endswith("[invalid_argument]"), lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def test_ranks_are_the_peers_of_one_run_with_the_bits_of_tcp(self):
        self.trains(4, "--net.same_bits", "true", where="mpi")
        r = self.run_it("--steps", "20", "--peers", "4", where="tcp", env=clean())
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        for peer in range(4):
            self.assertTrue(filecmp.cmp(self.saved("mpi", peer), self.saved("tcp", peer), shallow=False), peer)

    def test_sums_of_mpi_have_the_bits_of_tcp_among_two_ranks_and_the_same_ones_again_among_more(self):
        self.trains(2, "--comm", "every_step", where="two")
        r = self.run_it("--steps", "20", "--peers", "2", "--comm", "every_step", where="tcp", env=clean())
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        four = [self.trains(4, "--comm", "every_step", where=where) for where in ["four", "again"]]
        ordered = self.trains(4, "--comm", "every_step", "--net.same_bits", "true", where="ordered")
        self.assertTrue(filecmp.cmp(self.saved("two", 0), self.saved("tcp", 0), shallow=False))
        self.assertTrue(filecmp.cmp(self.saved("four", 3), self.saved("again", 3), shallow=False))
        self.assertAlmostEqual(validation(four[0]), validation(ordered), delta=1e-3)

    def test_two_sites_of_two_are_two_peers_with_batches_of_twice_as_many(self):
        sites = self.trains(4, "--sites", "2", "--threads", "1", where="sites")
        # What two ranks add is two finished sums, as here: so the bits are the same.
        r = self.run_it("--steps", "20", "--peers", "2", "--threads", "1", "--micro-batches", "2", "--train.added_apart", "true",
                        where="peers", env=clean())
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(validation(sites), validation(r.stdout))
        for peer in range(2):
            self.assertTrue(filecmp.cmp(self.saved("sites", peer), self.saved("peers", peer), shallow=False), peer)
        sent = [float(re.search(r"each peer sent ([0-9.]+) kB on its sockets", out).group(1)) for out in [sites, r.stdout]]
        self.assertAlmostEqual(sent[0], sent[1], delta=2)  # between sites: what two peers send, and nothing for the ranks
        self.assertEqual(len(glob.glob(os.path.join(self.dir, "sites", "causeway", "peer-*"))), 2)

    def test_a_site_adds_up_once_for_all_micro_batches_of_a_step(self):
        whole = self.trains(4, "--sites", "2", "--threads", "1", where="whole")
        cut = self.trains(4, "--sites", "2", "--threads", "1", "--micro-batches", "2", where="cut")
        self.assertAlmostEqual(validation(whole), validation(cut), delta=1e-3)

    def test_a_site_that_goes_on_has_the_bits_of_one_that_was_never_stopped(self):
        run = ["--sites", "1", "--threads", "1", "--train.checkpoint_every", "10"]
        self.trains(3, *run, where="whole")
        chosen = os.path.join(self.dir, "whole", "causeway", "site-0.txt")
        with open(chosen) as f:
            kept = f.read()
        self.assertRegex(kept, r"^3 ranks, [^\n]* bytes\n1024 (all_reduce|in_parts|messages|direct|shared) (broadcast|messages)\n")
        shutil.copytree(os.path.join(self.dir, "whole"), os.path.join(self.dir, "stopped"))
        os.remove(self.saved("stopped", 0))
        self.trains(3, *run, where="stopped")
        self.assertTrue(filecmp.cmp(self.saved("whole", 0), self.saved("stopped", 0), shallow=False))
        with open(os.path.join(self.dir, "stopped", "causeway", "site-0.txt")) as f:
            self.assertEqual(f.read(), kept)

    def test_ranks_of_sites_may_be_listed(self):
        self.trains(3, "--sites", "2", "--site-of", "0,1,0")
        self.says(self.ranks(3, "--sites", "2", "--site-of", "0,0,0"), "net.site_of", "0 to 1")

    def test_leaders_meet_behind_an_address_that_is_not_the_first_ones_own(self):
        head, *rest = launch(1)
        command = self.command("--steps", "20", "--sites", "2")
        at = [["env", "MASTER_ADDR=" + address, *command] for address in (ELSEWHERE, "127.0.0.1")]
        r = subprocess.run([head, *rest, *at[0], ":", "-n", "1", *at[1]], capture_output=True, text=True, errors="replace", env=environment(), timeout=120)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(r.stdout.count("validation loss"), 1, r.stdout)

    def test_errors_are_one_line_and_no_job_hangs(self):
        self.says(self.ranks(2, "--sites", "3"), "3 sites need a rank each, and the job has 2")
        self.says(self.ranks(2, "--peers", "3"), "--net.peers", "leave it out")
        self.says(self.ranks(2, "--sites", "1", "--parallel.policy", "pipeline"), "--parallel.policy data")
        self.fails(self.run_it("--sites", "2", env=clean()), "invalid_argument", "mpirun")

    def test_a_wrong_setting_is_said_once(self):
        self.says(self.ranks(4, "--model.widht", "64"), "model.widht", "model.width")
        self.says(self.ranks(4, "--model.heads", "3"), "heads (3)")
        self.says(self.ranks(4, "--sites", "2", "--model.heads", "3"), "heads (3)")

    def test_what_all_ranks_lack_is_said_once(self):
        for more in [], ["--sites", "2"], ["--sites", "1"]:
            r = self.ranks(4, "--data.path", os.path.join(self.dir, "nothing.txt"), *more)
            self.assertEqual(r.returncode, 1, r.stdout + r.stderr)
            self.assertEqual(len(re.findall("causeway: .*nothing.txt", r.stderr)), 1, r.stderr)

    @unittest.skipUnless(OTHER, "needs Open MPI and MPICH (Debian: openmpi-bin and mpich)")
    def test_the_mpirun_of_another_mpi_is_named_once(self):
        self.says(self.ranks(4, mpirun=OTHER), "started 4 ranks", "finds itself alone")

    def different(self, *colon):
        head, *rest = launch(1)
        command = self.command("--steps", "20")
        return subprocess.run([head, *rest, *command, ":", "-n", "1", *command, *colon], capture_output=True, text=True, errors="replace",
                              env=environment(), timeout=120)

    def test_a_rank_with_another_model_or_text_is_named(self):
        self.says(self.different("--model.width", "64"), "rank 1: model.width", "64", "32", "rank 0")
        self.says(self.different("--model.widht", "64"), "rank 1: ", "model.width")
        self.says(self.different("--sites", "1"), "rank 1: net.sites", "is 1 here and 0 in rank 0")
        other = os.path.join(self.dir, "other.txt")
        with open(self.text) as f, open(other, "w") as g:
            g.write(f.read()[::-1])
        self.says(self.different("--data.path", other, "--run.directory", os.path.join(self.dir, "elsewhere")), "rank 1: data.path", "another text")

@unittest.skipUnless(MPIRUN, "the program has no MPI, or its mpirun is not installed (Debian: libopenmpi-dev or libmpich-dev)")
class Sites(Program):
    """Two jobs of two ranks, each a site of an elastic run."""

    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for p in self.started:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
            p.wait(timeout=60)
        super().tearDown()

    def start(self, where, command, *args):
        arguments = [*self.command("--sites", "1", "--threads", "1", *args, where=where)[2:]]
        log = os.path.join(self.dir, f"{where}-{len(self.started)}.log")
        with open(log, "w") as f:
            p = subprocess.Popen([*launch(2), PROGRAM, *command, *arguments], stdout=f, stderr=f, env=environment(), start_new_session=True)
        p.log = log
        self.started.append(p)
        return p

    def said(self, p):
        with open(p.log, errors="replace") as f:
            return f.read()

    def rounds(self, where):
        found = []
        for path in glob.glob(os.path.join(self.dir, where, "causeway", "peer-*", "rounds.jsonl")):
            with open(path) as f:
                found += [json.loads(line) for line in f if line.endswith("\n")]
        return found

    def last(self, where):
        return max((r["round"] for r in self.rounds(where) if "round" in r), default=0)

    def ranks_of(self, p):
        """The processes of the program below an mpirun."""
        out = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True).stdout
        rows = [line.split(None, 2) for line in out.splitlines()]
        below, grown = {p.pid}, True
        while grown:
            more = {int(pid) for pid, parent, _ in rows if int(parent) in below} - below
            below |= more
            grown = bool(more)
        return [int(pid) for pid, _, args in rows if int(pid) in below and args.startswith(PROGRAM)]

    def running(self, ranks):
        """Those of `ranks` that have not ended, whoever is their parent now."""
        out = subprocess.run(["ps", "-e", "-o", "pid=,args="], capture_output=True, text=True).stdout
        rows = [line.split(None, 1) for line in out.splitlines()]
        return [int(row[0]) for row in rows if int(row[0]) in ranks and row[-1].startswith(PROGRAM)]

    def test_a_killed_rank_ends_its_site_alone_and_the_site_comes_back(self):
        chance, port = random.Random(7), free_port()
        kills = int(os.environ.get("CAUSEWAY_SITE_KILLS", "2"))
        run = ["--fault.policy", "quorum", "--peers", "2", "--steps", "100000000", "--fault.min_peers", "1"]
        address = f"127.0.0.1:{port}"
        here = self.start("here", ["train"], *run, "--net.listen", address)
        until(lambda: "causeway join" in self.said(here), here)
        for kill in range(kills + 1):
            there = self.start("there", ["join", address])
            seen = self.last("there")
            until(lambda: self.last("there") > seen, there)
            if kill == kills:
                break
            until(lambda at=seen + chance.randrange(1, 6): self.last("there") > at, there)
            ranks = self.ranks_of(there)
            self.assertEqual(self.running(ranks), ranks)
            os.kill(chance.choice(ranks), signal.SIGKILL)
            self.assertNotEqual(there.wait(timeout=60), 0)
            self.assertEqual(self.running(ranks), [])
            before = self.last("here")
            until(lambda: self.last("here") > before + 1, here)  # the other site commits on
        until(lambda: min(self.last("here"), self.last("there")) > before + 3, there)
        for p in [here, there]:
            os.kill(min(self.ranks_of(p)), signal.SIGTERM)  # a launcher starts its ranks in their order
            self.assertNotEqual(p.wait(timeout=60), 0)
            self.assertIn("Start the same command again", self.said(p)[-3000:])
        states = [{r["round"]: r["state"] for r in self.rounds(w) if "state" in r} for w in ["here", "there"]]
        common = states[0].keys() & states[1].keys()
        self.assertGreater(len(common), kills)
        self.assertEqual([states[0][r] for r in common], [states[1][r] for r in common])


if __name__ == "__main__":
    unittest.main()
