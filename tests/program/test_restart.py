# SPDX-License-Identifier: Apache-2.0
"""Peers with a fixed set of which one is lost: `--fault.policy restart` goes on by itself."""
import glob, os, signal, socket, subprocess, unittest

from support import Program, until


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


class Restart(Program):
    def start(self, *args, where="runs"):
        return subprocess.Popen(self.command("--fault.policy", "restart", *args, where=where), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)

    def join(self, address, *args):
        command = self.command(where="runs", command="join")
        return subprocess.Popen([*command[:2], address, *command[2:], *args], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)

    def saved(self, peers, at_least, process, where="runs"):
        folders = [os.path.join(self.dir, where, "causeway", f"peer-{i}", "step-*.ckpt") for i in range(peers)]
        until(lambda: all(len(glob.glob(each)) >= at_least for each in folders), process)

    def written(self):
        """Bytes of the first peer's metrics: a few hundred for each step."""
        path = os.path.join(self.dir, "runs", "causeway", "peer-0", "metrics.jsonl")
        return os.path.getsize(path) if os.path.exists(path) else 0

    def child(self, process):
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        return int(found[-1])

    def ends_as_undisturbed(self, *args, peers, steps):
        args = [*args, "--peers", str(peers), "--steps", str(steps), "--train.checkpoint_every", "20",
                "--train.evaluate_every", "100"]
        whole = self.start(*args, where="whole")
        out, err = whole.communicate(timeout=120)
        self.assertEqual(whole.returncode, 0, err)
        self.assertNotIn("attempt", out)
        p = self.start(*args)
        self.saved(peers, 3, p)  # that of the beginning, and two more
        os.kill(self.child(p), signal.SIGKILL)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 0, out + err)
        self.assertIn("was lost; all go on from their newest checkpoints (attempt 2)", out)
        self.assertIn("resuming at step", out)
        for peer in range(peers):
            self.assertEqual(self.checkpoint("runs", peer, steps), self.checkpoint("whole", peer, steps), peer)

    def test_a_killed_peer_costs_steps_and_no_bits(self):
        self.ends_as_undisturbed(peers=3, steps=1500)

    def test_a_killed_stage_costs_steps_and_no_bits(self):
        self.ends_as_undisturbed("--parallel.policy", "pipeline", "--train.micro_batches", "2", "--comm.policy", "every_step",
                                 peers=2, steps=1000)

    def test_a_peer_that_always_dies_ends_the_run_with_its_error(self):
        p = self.start("--peers", "2", "--steps", "1000000", "--train.checkpoint_every", "1000000", "--train.evaluate_every",
                       "50", "--fault.restarts", "2")
        until(lambda: self.written() > 1_000_000, p)  # thousands of steps
        os.kill(self.child(p), signal.SIGKILL)
        begun = 0
        for line in p.stdout:  # each attempt begins at step 0 again, and is killed long before it gets as far
            if "resuming at step 0," in line:
                begun += 1
                os.kill(self.child(p), signal.SIGKILL)
        _, err = p.communicate(timeout=60)
        self.assertEqual(begun, 2)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("[peer_lost]", err.splitlines()[-1])

    def test_a_peer_that_dies_before_all_are_in_ends_the_wait(self):
        dies = dict(os.environ, CAUSEWAY_FAILPOINT="joining@2")
        for policy, restarts in [("fail_stop", 0), ("restart", 2)]:
            p = subprocess.run(self.command("--fault.policy", policy, "--peers", "3", where=policy), env=dies,
                               capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 1, p.stdout)
            self.assertIn("a peer on this machine: ended before all were in", p.stderr.splitlines()[-1])
            self.assertEqual(p.stdout.count("all go on from their newest checkpoints"), restarts, p.stdout)

    def test_a_stop_ends_an_attempt_that_waits_for_others(self):
        address = free_address()
        p = self.start("--peers", "2", "--steps", "1000000", "--net.listen", address)
        other = self.join(address)
        self.saved(2, 1, p)
        other.kill()
        other.communicate()
        for line in p.stdout:
            if "(attempt 2)" in line:
                break
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)

    def test_a_machine_that_comes_back_is_the_peer_that_it_was(self):
        address = free_address()
        steps = 1500
        threads = ["--net.threads", "1"]
        args = ["--peers", "3", "--steps", str(steps), "--train.checkpoint_every", "20", *threads]
        p = self.start(*args, "--net.listen", address)
        others = [self.join(address, *threads) for _ in range(2)]
        self.saved(3, 3, p)
        others[0].kill()
        others[0].communicate()
        others[0] = self.join(address, *threads)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 0, out + err)
        self.assertIn("(attempt 2)", out)
        for other in others:
            out, err = other.communicate(timeout=60)
            self.assertEqual(other.returncode, 0, out + err)
        whole = self.start(*args, where="whole")
        _, err = whole.communicate(timeout=120)
        self.assertEqual(whole.returncode, 0, err)
        for peer in range(3):
            self.assertEqual(self.checkpoint("runs", peer, steps), self.checkpoint("whole", peer, steps), peer)

    def test_peers_of_a_list_come_together_again(self):
        steps = 1500
        args = ["--steps", str(steps), "--train.checkpoint_every", "20", "--net.threads", "1"]
        listed = ["--net.static_peers", ",".join([free_address(), free_address()])]
        peers = [self.start(*args, *listed, "--net.index", str(i)) for i in range(2)]
        self.saved(2, 3, peers[0])
        peers[1].kill()
        peers[1].communicate()
        peers[1] = self.start(*args, *listed, "--net.index", "1")
        for i, p in enumerate(peers):
            out, err = p.communicate(timeout=120)
            self.assertEqual(p.returncode, 0, out + err)
            self.assertEqual("(attempt 2)" in out, i == 0, out)
        whole = self.start(*args, "--peers", "2", where="whole")
        _, err = whole.communicate(timeout=120)
        self.assertEqual(whole.returncode, 0, err)
        for peer in range(2):
            self.assertEqual(self.checkpoint("runs", peer, steps), self.checkpoint("whole", peer, steps), peer)

    def test_what_cannot_restart_says_so(self):
        alone = self.run_it("--fault.policy", "restart")
        self.fails(alone, "invalid_argument", "fault.policy", "fail_stop")
        anywhere = self.run_it("--fault.policy", "restart", "--peers", "2", "--net.listen", "127.0.0.1:0")
        self.fails(anywhere, "invalid_argument", "net.listen", "port")
        swarm = self.run_it("--fault.policy", "restart", "--peers", "4", "--parallel.policy", "swarm")
        self.fails(swarm, "invalid_argument", "fault.policy", "quorum")


if __name__ == "__main__":
    unittest.main()
