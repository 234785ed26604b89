#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The job scripts of examples/slurm on a real Slurm: its own munged, slurmctld and two slurmd on this machine, each a node.
usage: test_slurm.py PATH_OF_CAUSEWAY [unittest options]"""
import filecmp, glob, os, shutil, signal, socket, subprocess, tempfile, unittest

from support import PROGRAM, Program, until
from test_launchers import clean, free_port
from test_mpi import OWN

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "slurm")
NEEDS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo"]
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PMI = {"openmpi": "pmix", "mpich": "pmi2"}.get(OWN, "none")


class Cluster:
    """Two nodes of two processors each, as the same machine under two names."""

    def __init__(self):
        self.box = tempfile.mkdtemp(prefix="slurm-", dir="/tmp")  # paths of sockets are short
        self.daemons, self.why = [], ""
        self.env = {**clean(), "PATH": PATH, "SLURM_CONF": self.path("slurm.conf")}

    def path(self, *names):
        return os.path.join(self.box, *names)

    def run(self, *command, check=True, **more):
        r = subprocess.run(command, env=self.env, capture_output=True, text=True, errors="replace", timeout=60, **more)
        if check and r.returncode != 0:
            raise AssertionError(" ".join(command) + ": " + r.stdout + r.stderr)
        return r

    def start(self, *command):
        with open(self.path("log", f"{command[0]}-{len(self.daemons)}.out"), "w") as out:
            self.daemons.append(subprocess.Popen(command, env=self.env, stdout=out, stderr=out, start_new_session=True))

    def up(self):
        for name in ["state", "munge", "log", "spool-n0", "spool-n1", "tmp-n0", "tmp-n1"]:
            os.mkdir(self.path(name), 0o700)
        with open(self.path("munge", "key"), "wb") as f:
            f.write(os.urandom(128))
        os.chmod(self.path("munge", "key"), 0o600)
        control, first = free_port(), free_port(and_next=True)
        host, me = socket.gethostname().split(".")[0], "root"
        with open(self.path("slurm.conf"), "w") as f:
            f.write(f"""ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={me}
SlurmdUser={me}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={self.path('munge', 'socket')}
SlurmctldPort={control}
StateSaveLocation={self.path('state')}
SlurmdSpoolDir={self.path('spool-%n')}
SlurmctldPidFile={self.path('ctld.pid')}
SlurmdPidFile={self.path('d-%n.pid')}
TmpFS={self.path('tmp-%n')}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,batch_sched_delay=1,bf_interval=2
ReturnToService=2
KillWait=20
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{first + 1}] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n[0-1] Default=YES State=UP
""")
        munge = [f"--{kind}={self.path('munge', name)}" for kind, name in
                 [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]]
        self.start("munged", "--foreground", "--force", *munge)
        until(lambda: os.path.exists(self.path("munge", "socket")), self.daemons[-1])
        self.start("slurmctld", "-D", "-c", "-f", self.path("slurm.conf"))
        for node in ["n0", "n1"]:
            self.start("slurmd", "-D", "-N", node, "-f", self.path("slurm.conf"))
        until(lambda: self.run("sinfo", "-h", "-o", "%t%D", check=False).stdout.strip() == "idle2", self.daemons[-1])

    def logs(self):
        text = ""
        for path in glob.glob(self.path("log", "*.out")):
            with open(path, errors="replace") as f:
                text += path + ":\n" + f.read()[-1500:]
        return text

    def down(self):
        for p in reversed(self.daemons):
            p.terminate()
        for p in self.daemons:
            try:
                p.wait(timeout=30)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait(timeout=30)
        shutil.rmtree(self.box, ignore_errors=True)


MISSING = [name for name in NEEDS if not shutil.which(name, path=PATH)]


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)} (Debian: slurmctld slurmd slurm-client munge)")
@unittest.skipUnless(os.geteuid() == 0, "slurmd needs root")
class Slurm(Program):
    def setUp(self):
        super().setUp()
        self.cluster = Cluster()
        self.addCleanup(self.cluster.down)
        try:
            self.cluster.up()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
            self.skipTest(f"a Slurm cannot be started here: {why}\n{self.cluster.logs()}")

    def submit(self, script, *args, options=(), **variables):
        exported = {"CAUSEWAY": PROGRAM, "CAUSEWAY_SRUN_MPI": PMI, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_btl": "tcp,self",  # both nodes are this machine: their segments of shared memory would have the same names
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **variables}
        self.cluster.env.update(exported)
        return self.cluster.run("sbatch", "--parsable", f"--output={self.dir}/job-%j.out", f"--chdir={self.dir}", *options,
                                os.path.join(SCRIPTS, script), *args).stdout.strip()

    def said(self, job):
        try:
            with open(os.path.join(self.dir, f"job-{job}.out"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def shown(self, job, key):
        for word in self.cluster.run("scontrol", "show", "job", job).stdout.split():
            if word.startswith(key + "="):
                return word.split("=", 1)[1]
        return ""

    def ends(self, job, patience=120):
        done = lambda: self.shown(job, "JobState") in ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"]
        until(done, patience=patience)
        self.assertEqual(self.shown(job, "JobState"), "COMPLETED", self.said(job)[-3000:] + self.cluster.logs())

    def saved(self, where, peer, step):
        return os.path.join(self.dir, where, "causeway", f"peer-{peer}", f"step-{step:08d}.ckpt")

    def arguments(self, where, steps):
        return self.command("--steps", str(steps), "--threads", "1", "--quiet", "true", "--train.checkpoint_every", "20", where=where)[2:]

    def test_a_job_that_is_queued_again_goes_on_bit_for_bit(self):
        steps = 2000  # long enough to be caught in the middle
        straight = self.submit("train.sbatch", *self.arguments("straight", steps))
        self.ends(straight)
        job = self.submit("train.sbatch", *self.arguments("stopped", steps))
        until(lambda: glob.glob(os.path.join(self.dir, "stopped", "causeway", "peer-0", "step-*[1-9]00.ckpt")))
        self.cluster.run("scancel", "--signal=TERM", job)  # what preemption sends to the tasks
        until(lambda: self.shown(job, "Restarts") == "1")
        self.assertFalse(os.path.exists(self.saved("stopped", 0, steps)), "it was not stopped in the middle")
        until(lambda: self.shown(job, "JobState") == "PENDING")
        # By itself Slurm waits two minutes.
        until(lambda: self.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False).returncode == 0)
        self.ends(job, patience=240)
        for peer in range(4):
            self.assertTrue(filecmp.cmp(self.saved("straight", peer, steps), self.saved("stopped", peer, steps), shallow=False), peer)

    @unittest.skipUnless(OWN, "the program has no MPI")
    def test_jobs_of_an_array_are_sites_of_one_run(self):
        address = f"127.0.0.1:{free_port()}"
        command = self.command("--fault.policy", "quorum", "--peers", "3", "--steps", "300", "--threads", "1", "--quiet", "true", "--net.listen", address)
        with open(os.path.join(self.dir, "founder"), "w") as out:
            founder = subprocess.Popen(command, env=clean(), stdout=out, stderr=out, start_new_session=True)
        self.addCleanup(lambda: founder.poll() is None and (founder.send_signal(signal.SIGKILL), founder.wait()))
        runs = os.path.join(self.dir, "sites")
        self.submit("sites.sbatch", address, "--data.path", self.text, "--threads", "1", "--quiet", "true", options=["--array=0-1"], CAUSEWAY_RUNS=runs)
        self.assertEqual(founder.wait(timeout=120), 0)
        until(lambda: not self.cluster.run("squeue", "-h").stdout.strip())
        with open(os.path.join(self.dir, "runs", "causeway", "peer-0", "rounds.jsonl")) as f:
            self.assertIn('"peers":3', f.read().replace(" ", ""))
        self.assertEqual(len(glob.glob(runs + "/site-*/causeway/peer-*")), 2)


if __name__ == "__main__":
    unittest.main()
