#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whose peers come and go, and the simulator, as a person meets them: real processes that are killed, stopped, started
again and joined.
usage: test_elastic.py PATH_OF_CAUSEWAY [unittest options]"""
import glob, json, os, re, shutil, signal, subprocess, time, unittest

import wire
from support import PROGRAM, Program

LONG = ["--steps", "100000000"]  # ends only when it is told to, however quick the machine is


class Elastic(Program):
    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.communicate(timeout=60)
        for where in glob.glob(os.path.join(self.dir, "*", "causeway", "peer-*", "address")):
            with open(where) as f:
                self.end_orphan(f.read().split()[1])
        super().tearDown()

    def end_orphan(self, pid):
        """A peer that outlived its launcher; another program may have its number by now."""
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                ours = self.dir in f.read()
            if ours:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass

    def spawn(self, command, env=None):
        p = None
        with open(os.path.join(self.dir, f"out-{len(self.processes)}"), "w") as out, \
                open(os.path.join(self.dir, f"err-{len(self.processes)}"), "w") as err:
            p = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, env=env)
            p.out, p.err = out.name, err.name
        self.processes.append(p)
        return p

    def start(self, *args, env=None):
        command = self.command("--fault.policy", "quorum", "--run.journal", "true", "--threads", "1", *args)
        return self.spawn(command, env)

    def said(self, p, which="out"):
        with open(getattr(p, which), errors="replace") as f:
            return f.read()

    def folder(self, peer, where="runs"):
        return os.path.join(self.dir, where, "causeway", f"peer-{peer}")

    def lines(self, peer, name="rounds.jsonl", where="runs"):
        try:
            with open(os.path.join(self.folder(peer, where), name)) as f:
                return [json.loads(l) for l in f if l.endswith("}\n")]
        except FileNotFoundError:
            return []

    def round(self, peer, where="runs"):
        lines = self.lines(peer, where=where)
        return lines[-1]["round"] if lines else 0

    def pid(self, peer, where="runs"):
        with open(os.path.join(self.folder(peer, where), "address")) as f:
            return int(f.read().split()[1])

    def until(self, done, p=None, patience=60):
        end = time.monotonic() + patience
        while not done():
            if p is not None and p.poll() is not None and not done():
                self.fail(f"ended with {p.returncode}\n{self.said(p)}\n{self.said(p, 'err')}")
            if time.monotonic() > end:
                self.fail("it did not happen\n" + "\n".join(self.said(q) + self.said(q, "err") for q in self.processes))
            time.sleep(0.01)

    def ends(self, p, code=0, patience=90):
        try:
            p.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self.fail(f"it does not end\n{self.said(p)}\n{self.said(p, 'err')}")
        self.assertEqual(p.returncode, code, self.said(p) + self.said(p, "err"))

    def results(self, where="runs"):
        found = {}
        for path in sorted(glob.glob(os.path.join(self.dir, where, "causeway", "peer-*", "result.json"))):
            with open(path) as f:
                found[int(re.search(r"peer-(\d+)", path).group(1))] = json.load(f)
        return found

    def all_alike(self, results, count):
        self.assertEqual(len(results), count)
        self.assertEqual(len({r["state"] for r in results}), 1, results)
        self.assertEqual(len({r["validation"] for r in results}), 1, results)

    def states_alike(self, *rounds):
        """Lists of lines of rounds.jsonl: whoever held a round held the same."""
        states = {}
        for lines in rounds:
            self.assertGreater(len(lines), 0)
            for line in lines:
                self.assertEqual(states.setdefault(line["round"], line["state"]), line["state"], line)

    def journals_hold(self, *where):
        folders = [os.path.join(self.dir, w, "causeway") for w in where or ["runs"]]
        r = subprocess.run([PROGRAM, "check-journal", *folders], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn("all as it must be", r.stdout)

    def is_dead(self, pid):
        """All its threads are gone: the first one may be, and the others still hold the locks."""
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
        except OSError:
            return True

    def host(self, *args):
        p = self.start("--peers", "2", *args)
        self.until(lambda: self.round(0) >= 2, p)
        return p, re.search(r"causeway join (\S+)", self.said(p)).group(1)

    def join(self, address, *args, env=None):
        command = [PROGRAM, "join", address, "--fault.policy", "quorum", "--run.directory", os.path.join(self.dir, "other"),
                   "--data.path", self.text, "--threads", "1", *args]
        return self.spawn(command, env)


class Training(Elastic):
    def test_four_peers_train_to_the_end_and_hold_the_same(self):
        for extra in [[], ["--comm.policy", "every_step"], ["--comm.policy", "local_sgd", "--comm.codec", "int8"]]:
            with self.subTest(extra):
                p = self.start("--peers", "4", "--steps", "60", "--run.fresh", "true", *extra)
                self.ends(p)
                self.all_alike(list(self.results().values()), 4)
                self.assertLess(self.results()[0]["validation"], 4.0)  # uniform over bytes is 5.5
                self.assertRegex(self.said(p), r"4 of 4 peers trained to the end")
                self.journals_hold()
        g = subprocess.run(self.command("--prompt", "the sea", command="generate"), capture_output=True, text=True,
                           errors="replace", timeout=60)
        self.assertEqual(g.returncode, 0, g.stderr)
        self.assertTrue(g.stdout.startswith("the sea"))

    def test_nobody_needs_to_validate(self):
        p = self.start("--peers", "2", "--steps", "40", "--train.evaluate_every", "0", "--train.checkpoint_every", "0")
        self.ends(p)
        self.assertEqual(len(self.results()), 2)
        self.assertEqual({line.get("validation") for peer in (0, 1) for line in self.lines(peer)}, {0})

    def test_a_killed_peer_does_not_end_the_run(self):
        p = self.start("--peers", "4", "--steps", "400", env=dict(os.environ, CAUSEWAY_FAILPOINT="committed:3@2"))
        self.ends(p)
        results = self.results()
        self.assertNotIn(2, results)
        self.all_alike(list(results.values()), 3)
        self.assertRegex(self.said(p, "err"), r"peer 2 \(pid \d+\) was killed by signal 9; the others go on")
        self.journals_hold()

    def test_the_steps_that_are_shown_are_the_whole_runs(self):
        p = self.start("--peers", "4", "--steps", "100", "--train.evaluate_every", "10", env=dict(os.environ, CAUSEWAY_FAILPOINT="committed:2@3"))
        self.ends(p)
        last = self.lines(0)[-1]
        self.assertGreater(last["step"], 100)  # the others made the lost one's as well
        self.assertEqual(last["of_run"], 100)
        shown = [int(n) for n in re.findall(r"step (\d+) ", self.said(p))]
        self.assertGreater(len(shown), 3)
        self.assertLessEqual(max(shown), 100)

    def test_what_no_peer_can_begin_with_is_refused_before_any_is_started(self):
        for args, parts in [(["--comm.fragments", "11"], ["11 fragments in 10 inner steps", "comm.fragments"]),
                            (["--comm.fragments", "99", "--comm.local_steps", "200"], ["comm.fragments", "99 of 28 tensors", "use 1 to 28"]),
                            (["--comm.policy", "streaming_diloco", "--comm.local_steps", "1"], ["2 fragments in 1", "comm.fragment_blocks"])]:
            with self.subTest(args):
                p = self.start("--peers", "2", "--steps", "20", "--comm.policy", "decoupled_diloco", *args, "--restart", "true")
                self.ends(p, 2)
                self.assertEqual(self.said(p, "err").count("causeway:"), 1)
                for part in [*parts, "[invalid_argument]"]:
                    self.assertIn(part, self.said(p, "err"))
                self.assertFalse(os.path.exists(self.folder(0)))

    def test_what_only_a_peer_can_find_ends_the_run_once(self):
        args = ["--peers", "3", "--steps", "40"]
        self.ends(self.start(*args))
        with open(os.path.join(self.dir, "runs", "causeway", "text.hash"), "w") as f:
            f.write("1\n")
        p = self.start(*args, "--restart", "true")
        self.ends(p, 1)
        self.assertEqual(self.said(p, "err").count("\n"), 1, self.said(p, "err"))
        self.assertIn("data.path: this is another text", self.said(p, "err"))

    def test_peers_with_regional_hubs_have_the_samples_of_a_record(self):
        p = self.start("--peers", "4", "--steps", "64", "--comm.policy", "halos", "--comm.local_steps", "1")
        self.ends(p)
        self.assertLessEqual(self.results()[0]["round"], 6)  # a record after 32 pushes to a hub: 16 steps of each of its two

    def test_the_founder_may_die_and_the_killed_are_started_again(self):
        p = self.start("--peers", "4", *LONG, "--restart", "true")
        for victim in [0, 3]:
            self.until(lambda: self.round(victim) >= 3, p)
            before, reached = self.pid(victim), self.round(victim)
            identity = self.identity(victim)
            os.kill(before, signal.SIGKILL)
            self.until(lambda: self.pid(victim) != before, p)
            self.until(lambda: all(self.round(i) > reached for i in range(4)), p)
            self.assertEqual(self.identity(victim), identity)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        self.assertEqual(self.said(p, "err").count("was killed by signal 9; starting it again"), 2)
        self.states_alike(*[self.lines(i) for i in range(4)])
        self.journals_hold()

    def identity(self, peer):
        with open(os.path.join(self.folder(peer), "journal.txt")) as f:
            return {line.split()[1] for line in f if line.endswith("\n")}

    def test_the_launcher_may_die_and_the_next_one_finds_its_peers(self):
        p = self.start("--peers", "3", *LONG)
        self.until(lambda: all(self.round(i) >= 2 for i in range(3)), p)
        p.kill()
        p.wait()
        os.kill(self.pid(1), signal.SIGKILL)
        before = self.round(0)
        self.until(lambda: self.round(0) > before + 3)
        again = self.start("--peers", "3", *LONG)
        self.until(lambda: "peer 0 runs already" in self.said(again), again)
        joined = self.round(1)
        self.until(lambda: self.round(1) > joined, again)
        again.send_signal(signal.SIGINT)
        self.ends(again, 130)
        self.until(lambda: all(self.is_dead(self.pid(i)) for i in range(3)))
        self.journals_hold()

    def test_interrupted_and_started_again(self):
        reached = 0
        for _ in range(3):
            p = self.start("--peers", "3", *LONG)
            self.until(lambda: all(self.round(i) > reached + 3 for i in range(3)), p)
            p.send_signal(signal.SIGINT)
            self.ends(p, 130)
            self.assertIn("Start the same command again", self.said(p))
            reached = max(self.round(i) for i in range(3))
        self.states_alike(*[self.lines(i) for i in range(3)])
        rounds = [l["round"] for l in self.lines(0)]
        self.assertEqual(rounds, sorted(set(rounds)))  # nothing committed was lost or done twice
        self.journals_hold()

    def test_an_interrupted_start_says_how_far_the_run_is(self):
        p = self.start("--peers", "2", *LONG)
        self.until(lambda: all(self.round(i) > 3 for i in range(2)), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        reached = max(self.round(i) for i in range(2))
        p = self.start("--peers", "2", *LONG)
        self.until(lambda: os.path.exists(p.out) and self.listens_again(p, 0), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        said = int(re.search(r"stopped at round (\d+)", self.said(p)).group(1))
        self.assertGreaterEqual(said, reached)

    def listens_again(self, p, peer):
        return str(self.pid(peer)) in subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split()

    def test_what_is_local_reaches_the_peers_that_a_launcher_starts(self):
        store = os.path.join(self.dir, "store")
        local = ["--net.patience", "7", "--parallel.store", store, "--net.streams", "2"]
        elastic = self.start("--peers", "2", *local, *LONG)
        self.until(lambda: all(self.round(i) > 0 for i in range(2)), elastic)
        fixed = self.spawn(self.command("--peers", "2", *local, *LONG, where="fixed"))
        children = lambda: subprocess.run(["pgrep", "-P", str(fixed.pid)], capture_output=True, text=True).stdout.split()
        self.until(lambda: len(children()) == 1 and "join" in self.words(children()[0]), fixed)
        for pid in [self.pid(0), self.pid(1), children()[0]]:
            words = self.words(pid)
            for name, value in zip(local[::2], local[1::2]):
                self.assertEqual(words[words.index(name) + 1], value, words)
            self.assertNotIn("--run.fresh", words)
        for p in [elastic, fixed]:
            p.send_signal(signal.SIGINT)
            self.ends(p, 130)

    def words(self, pid):
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().split("\0")

    def test_a_silent_stranger_does_not_hold_up_the_end(self):
        p = self.start("--peers", "2", "--listen", "127.0.0.1:0", "--steps", "40", "--net.patience", "2")
        self.until(lambda: "causeway join" in self.said(p), p)
        self.assertIn("the first round waits until 2 are there", self.said(p))
        address = re.search(r"causeway join (\S+)", self.said(p)).group(1)
        stranger = wire.SilentStranger(address, wire.run_id("causeway"))
        try:
            other = self.join(address)  # the run begins with it, so the stranger is there before the end
            for q in [p, other]:
                self.ends(q)
        finally:
            stranger.close()
        self.assertIn("validation loss", self.said(p))
        with open(os.path.join(self.folder(0), "log.txt")) as f:
            log = f.read()
        self.assertIn("staying for 1 peers", log)  # it was there, and was waited for a while
        self.assertNotIn("dropped", log)

    def test_another_setting_on_the_same_folder_is_refused(self):
        self.ends(self.start("--peers", "2", "--steps", "20"))
        p = self.start("--peers", "2", "--steps", "20", "--model.layers", "3")
        self.ends(p, 1)
        self.assertIn("model.layers", self.said(p, "err"))
        self.assertIn("[wrong_model]", self.said(p, "err"))

    def test_a_wait_report_names_who_stands_still(self):
        p = self.start("--peers", "3", *LONG)
        self.until(lambda: all(self.round(i) >= 2 for i in range(3)), p)
        os.kill(self.pid(2), signal.SIGSTOP)
        try:
            still = self.round(0)
            self.until(lambda: self.asked(p, 0, rf"peer {self.identity(2).pop()} up, heard [0-9.]+ s ago, member"), p)
        finally:
            os.kill(self.pid(2), signal.SIGCONT)
        self.until(lambda: self.round(2) > still + 3, p)  # and it goes on
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        self.journals_hold()

    def asked(self, p, peer, pattern):
        """Asks with SIGUSR1; whether the report says that the peer is waiting, and for whom."""
        os.kill(self.pid(peer), signal.SIGUSR1)
        waits = r"gathering|exchange|committing"
        return re.search(waits, self.said(p, "err")) and re.search(pattern, self.said(p, "err"))

    def test_a_fixed_run_has_wait_reports_too(self):
        p = self.spawn(self.command("--peers", "2", *LONG, "--train.evaluate_every", "10"))
        self.until(lambda: "step" in self.said(p), p)
        child = int(subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split()[0])
        os.kill(child, signal.SIGSTOP)

        def reported():
            p.send_signal(signal.SIGUSR1)
            return "peer 1" in self.said(p, "err")
        try:
            self.until(reported, p)
        finally:
            os.kill(child, signal.SIGCONT)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)


class Presets(Elastic):
    """Fragments that take turns while training goes on, means of a few parameters, momentum that each peer has alone, what is sent
    taken out at once, and pairs."""
    NAMES = ["streaming_diloco", "sparta", "demo", "cocktail_sgd", "noloco"]
    OFTEN = {"noloco": ["--comm.local_steps", "4"]}

    def start_preset(self, name, *args, env=None):
        shutil.rmtree(os.path.join(self.dir, "runs"), ignore_errors=True)  # nothing of the preset before is waited for
        return self.start("--peers", "3", "--comm.policy", name, *args, env=env)

    def test_presets_train_to_the_end_and_hold_the_same(self):
        for name in self.NAMES:
            with self.subTest(name):
                p = self.start_preset(name, "--steps", "60", "--train.evaluate_every", "20", *self.OFTEN.get(name, []))
                self.ends(p)
                self.all_alike(list(self.results().values()), 3)
                self.assertLess(self.results()[0]["validation"], 5.0)  # uniform over bytes is 5.5
                lines = [line for peer in range(3) for line in self.lines(peer)]
                validated = sorted({line["step"] for line in lines if line["validation"] > 0})
                self.assertEqual([round(step / 20) for step in validated], [1, 2, 3])  # whatever makes a round
                self.states_alike(*[self.lines(peer) for peer in range(3)])
                self.journals_hold()

    def test_samples_are_gathered_to_the_end(self):
        p = self.start_preset("dedloc", "--comm.batch_samples", "24", "--steps", "60", env=dict(os.environ, CAUSEWAY_FAILPOINT="pause:20"))
        self.ends(p)
        self.all_alike(list(self.results().values()), 3)
        self.states_alike(*[self.lines(peer) for peer in range(3)])
        self.journals_hold()
        rounds = self.results()[0]["round"]
        self.assertGreater(rounds, 60 * 4 * 3 / 24 / 3)  # a peer ends the step that it is in
        self.assertLessEqual(rounds, 60 * 4 * 3 / 24 + 4)

    def test_a_preset_goes_on_when_a_peer_is_killed_and_it_comes_back(self):
        for name in self.NAMES:
            with self.subTest(name):
                slow = dict(os.environ, CAUSEWAY_FAILPOINT="pause:5")  # so that it is back before the end
                p = self.start_preset(name, "--steps", "150", "--restart", "true", env=slow)
                self.until(lambda: any(line["step"] >= 75 for line in self.lines(2)), p)
                killed = self.pid(2)
                os.kill(killed, signal.SIGKILL)
                self.ends(p)
                self.assertNotEqual(self.pid(2), killed)
                self.all_alike(list(self.results().values()), 3)
                self.states_alike(*[self.lines(peer) for peer in range(3)])
                self.journals_hold()

    def test_a_run_outlives_its_hub(self):
        p = self.start_preset("decoupled_diloco", "--comm.fragments", "4", "--comm.local_steps", "4", *LONG, "--restart", "true")
        self.until(lambda: all(self.round(i) >= 3 for i in range(3)), p)
        for _ in range(2):
            hub, since = self.hub()
            os.kill(self.pid(hub), signal.SIGKILL)
            self.until(lambda: self.hub()[1] > since, p)
            reached = self.round((hub + 1) % 3)
            self.until(lambda: all(self.round(i) > reached + 2 for i in range(3)), p)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        self.states_alike(*[self.lines(peer) for peer in range(3)])
        self.journals_hold()

    def hub(self):
        """Who said last that it is the hub, and in which round."""
        said = []
        for peer in range(3):
            with open(os.path.join(self.folder(peer), "log.txt"), errors="replace") as f:
                said += [(int(n), peer) for n in re.findall(r"round (\d+): this peer is the hub", f.read())]
        return max(said)[1], max(said)[0]


class Joining(Elastic):
    def test_a_peer_joins_in_the_middle_and_holds_the_same(self):
        p, address = self.host(*LONG)
        before = self.round(0)
        peer = self.join(address)
        self.until(lambda: min(self.round(0), self.round(1), self.round(0, "other")) > before + 3, peer)
        for q in [peer, p]:
            q.send_signal(signal.SIGINT)
            self.ends(q, 130)
        self.states_alike(self.lines(0), self.lines(1), self.lines(0, where="other"))
        self.assertGreaterEqual(self.lines(0, where="other")[0]["round"], before)
        self.assertEqual(max(l["peers"] for l in self.lines(0)), 3)
        self.journals_hold("runs", "other")

    def founder(self, *args):
        p = self.start("--listen", "127.0.0.1:0", *args)
        self.until(lambda: "causeway join" in self.said(p), p)
        return p, re.search(r"causeway join (\S+)", self.said(p)).group(1)

    def test_those_who_joined_before_the_first_round_end_with_the_same(self):
        p, address = self.founder("--peers", "3", "--steps", "60")
        joined = [self.join(address) for _ in range(2)]
        for q in [p, *joined]:
            self.ends(q)
        self.all_alike(list(self.results().values()) + list(self.results("other").values()), 3)
        self.journals_hold("runs", "other")
        again = self.join(address)  # nobody is there any more, and nobody is needed
        self.ends(again)
        self.assertIn("validation loss", self.said(again))

    def test_who_comes_back_to_a_run_that_has_gone_is_told(self):
        p, address = self.host(*LONG)
        peer = self.join(address)
        self.until(lambda: self.round(0, "other") > 0, peer)
        for q in [peer, p]:
            q.send_signal(signal.SIGINT)
            self.ends(q, 130)
        again = self.join(address, "--net.patience", "1")
        self.ends(again, 1)
        self.assertIn("[unreachable]", self.said(again, "err"))
        self.assertIn(address, self.said(again, "err"))
        self.assertIn("join again at the address of a peer that runs", self.said(again, "err"))

    def test_a_peer_leaves_and_comes_back_as_itself(self):
        p, address = self.host(*LONG)
        peer = self.join(address)
        self.until(lambda: self.round(0, "other") > 0, peer)
        peer.send_signal(signal.SIGINT)
        self.ends(peer, 130)
        self.assertIn("Start the same command again to come back", self.said(peer))
        who = re.search(r"this is peer (\d+)", self.said(peer)).group(1)
        seen = self.round(0)
        self.until(lambda: self.round(0) > seen + 3, p)
        again = self.join(address)
        self.until(lambda: self.round(0, "other") > seen, again)
        self.assertIn(f"this is peer {who}", self.said(again))
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)

    def test_the_wrong_run_is_refused(self):
        p, address = self.host(*LONG)
        peer = self.join(address, "--run.name", "another")
        self.ends(peer, 1)
        self.assertIn("[wrong_run]", self.said(peer, "err"))
        self.assertIn("--run.name", self.said(peer, "err"))

    def test_another_setting_or_text_is_refused(self):
        p, address = self.host(*LONG)
        peer = self.join(address, "--model.layers", "5")
        self.ends(peer, 1)
        self.assertIn("model.layers", self.said(peer, "err"))
        with open(self.text, "a") as f:
            f.write("and one more line\n")
        peer = self.join(address)
        self.ends(peer, 1)
        self.assertIn("another text", self.said(peer, "err"))

    def test_nobody_there(self):
        peer = self.join("127.0.0.1:1", "--net.patience", "1")
        self.ends(peer, 1)
        self.assertIn("[unreachable]", self.said(peer, "err"))

    def test_a_peer_dies_at_any_point_and_the_others_go_on(self):
        p, address = self.host(*LONG)
        for point in ["joining", "fetching", "fetched", "before_ready", "entered", "mid_exchange:3", "exchanged", "before_store",
                      "stored", "voted", "committed"]:
            with self.subTest(point):
                peer = self.join(address, env=dict(os.environ, CAUSEWAY_FAILPOINT=point))
                self.ends(peer, -signal.SIGKILL)
                before = self.round(0)
                self.until(lambda: self.round(0) > before + 1, p)
        peer = self.join(address)  # after all that
        before = self.round(0)
        self.until(lambda: self.round(0, "other") > before, peer)
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        self.journals_hold("runs", "other")


class Refounding(Elastic):
    def lose(self, p, count, *gone):
        """All die at once; the machines of some are gone for good. Their journals stay, to check by."""
        p.kill()
        p.wait()
        pids = [self.pid(i) for i in range(count)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: all(self.is_dead(pid) for pid in pids))
        for i in gone:
            lost = self.folder(i, "lost")
            os.makedirs(os.path.dirname(lost), exist_ok=True)
            os.rename(self.folder(i), lost)

    def test_one_or_two_go_on_where_four_stopped(self):
        for lost in [[0, 3], [0, 1, 3]]:
            with self.subTest(lost=lost):
                p = self.start("--peers", "4", "--run.fresh", "true", *LONG)
                self.until(lambda: all(self.round(i) > 3 for i in range(4)), p)
                self.lose(p, 4, *lost)
                count = str(4 - len(lost))
                p = self.start("--peers", count, "--run.refound", "true", *LONG)
                self.until(lambda: "as branch" in self.said(p), p)
                base, branch = re.search(r"founded anew on its round (\d+), as branch (\S+):", self.said(p)).groups()
                self.until(lambda: self.round(0) > int(base) + 3, p)
                p.send_signal(signal.SIGINT)
                self.ends(p, 130)
                again = self.round(0)
                p = self.start("--peers", count, *LONG)  # it is this run from now on
                self.until(lambda: self.round(0) > again + 3, p)
                self.assertIn(f"--run.branch {branch}", self.said(p))
                p.send_signal(signal.SIGINT)
                self.ends(p, 130)
                self.journals_hold("runs", "lost")
                shutil.rmtree(os.path.join(self.dir, "lost"))

    def test_a_run_is_founded_on_a_commit_that_no_journal_has(self):
        # A round is a step, which pauses: when both have noted a commit, the next is not on a disk yet.
        slow = dict(os.environ, CAUSEWAY_FAILPOINT="pause:1500")
        settings = ["--comm.local_steps", "1", *LONG]
        for alone in [False, True]:  # the other's folder may be gone, too
            with self.subTest(alone=alone):
                p = self.start("--peers", "2", *settings, env=slow)
                self.until(lambda: self.newest_commit(0) == self.newest_commit(1) > 1, p)
                self.lose(p, 2)
                self.cut_newest_commit(2)
                if alone:
                    shutil.rmtree(self.folder(1))
                p = self.start("--peers", "1", "--run.refound", "true", *settings)
                self.until(lambda: "as branch" in self.said(p), p)
                p.send_signal(signal.SIGINT)
                self.ends(p, 130)
                self.journals_hold()
                shutil.rmtree(os.path.join(self.dir, "runs"))

    def commits(self, peer):
        """The lines of its journal, each with its round if it is a commit's, else 0."""
        path = os.path.join(self.folder(peer), "journal.txt")
        if not os.path.exists(path):
            return []
        with open(path) as f:
            return [(int((re.search(r" commit .*round=(\d+)", line) or [0, 0])[1]), line) for line in f]

    def newest_commit(self, peer):
        return max((number for number, _ in self.commits(peer)), default=0)

    def cut_newest_commit(self, count):
        """They were killed when it was on their disks, and not in their journals yet."""
        newest = max(self.newest_commit(i) for i in range(count))
        for i in range(count):
            lines = self.commits(i)
            cut = next((at for at, (number, _) in enumerate(lines) if number == newest), len(lines))
            with open(os.path.join(self.folder(i), "journal.txt"), "w") as f:
                f.writelines(line for _, line in lines[:cut])

    def test_peers_of_other_machines_come_over_when_they_are_told_to(self):
        p, address = self.host(*LONG)
        peer = self.join(address)
        self.until(lambda: self.round(0, "other") > 0, peer)
        peer.send_signal(signal.SIGINT)
        self.ends(peer, 130)
        self.lose(p, 2, 1)
        p = self.start("--peers", "1", "--run.refound", "true", *LONG)
        self.until(lambda: "causeway join" in self.said(p), p)
        address = re.search(r"causeway join (\S+)", self.said(p)).group(1)
        branch = re.search(r"--run.branch ([0-9a-f-]+)", self.said(p)).group(1)
        stranger = self.join(address, "--net.patience", "1")  # it was in the other one
        self.ends(stranger, 1)
        self.assertIn("[wrong_run]", self.said(stranger, "err"))
        self.assertIn(f"--run.branch {branch}", self.said(stranger, "err"))
        before = self.round(0)
        peer = self.join(address, "--run.branch", branch)
        self.until(lambda: self.round(0, "other") > before, peer)
        for q in [peer, p]:
            q.send_signal(signal.SIGINT)
            self.ends(q, 130)
        self.journals_hold("runs", "lost", "other")

    def test_only_what_nobody_uses_is_founded_anew(self):
        p = self.start("--peers", "2", *LONG)
        self.until(lambda: self.round(0) > 1, p)
        q = self.start("--peers", "2", "--run.refound", "true", *LONG)
        self.ends(q, 2)
        self.assertRegex(self.said(q, "err"), r"peer-\d: runs \(process \d+\)")
        p.send_signal(signal.SIGINT)
        self.ends(p, 130)
        q = self.start("--peers", "2", "--run.refound", "true", "--run.name", "another", *LONG)
        self.ends(q, 1)
        self.assertIn("[not_found]", self.said(q, "err"))


class Simulating(Program):
    def simulate(self, *args, code=0):
        r = subprocess.run([PROGRAM, "simulate", *args], capture_output=True, text=True, errors="replace", timeout=120)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r

    MODEL = ["--sim.compute", "model", "--steps", "60", "--comm.local_steps", "10", "--sim.step_seconds", "1", "--sim.parameters",
             "500"]

    def test_the_same_seed_gives_the_same_output(self):
        args = [*self.MODEL, "--peers", "6", "--faults", "random"]
        history = [os.path.join(self.dir, n) for n in "ab"]
        a = self.simulate(*args, "--seed", "5", "--history", history[0])
        b = self.simulate(*args, "--seed", "5", "--history", history[1])
        self.assertEqual(a.stdout, b.stdout)
        with open(history[0]) as x, open(history[1]) as y:
            self.assertEqual(x.read(), y.read())
        c = self.simulate(*args, "--seed", "6")
        pick = lambda r: re.search(r"history (\w+)", r.stdout).group(1)
        self.assertNotEqual(pick(a), pick(c))

    def test_the_replay_line_replays(self):
        a = self.simulate(*self.MODEL, "--peers", "5", "--faults", "random", "--seed", "9")
        line = re.search(r"replay: causeway simulate (.*)", a.stdout).group(1)
        self.assertEqual(self.simulate(*line.split()).stdout, a.stdout)

    def test_faults_of_all_kinds_break_no_rule(self):
        for faults in ["random", "harsh", "swizzle", "datacentre"]:
            with self.subTest(faults):
                r = self.simulate(*self.MODEL, "--peers", "7", "--faults", faults, "--seeds", "4", "--sim.horizon", "600")
                self.assertEqual(r.stdout.count("trained to the end"), 4)

    def test_policies_and_codecs(self):
        for policy in [["--comm.policy", "every_step", "--steps", "12"], ["--comm.policy", "local_sgd", "--comm.codec", "int8"]]:
            with self.subTest(policy):
                r = self.simulate(*self.MODEL, "--peers", "4", "--faults", "random", *policy)
                self.assertIn("trained to the end", r.stdout)

    def test_a_peer_that_comes_back_makes_missed_steps_again_from_their_means(self):
        # Its state takes longer than a round to come: without their means it is fetched in vain until a round waits for it.
        plan = os.path.join(self.dir, "plan.toml")
        with open(plan, "w") as f:
            f.write('[[fault]]\nat = 20\nkind = "kill"\nhosts = [3]\n[[fault]]\nat = 40\nkind = "restart"\nhosts = [3]\n')
        history = os.path.join(self.dir, "history")
        self.simulate("--sim.compute", "model", "--steps", "36", "--comm.policy", "snoo", "--sim.step_seconds", "2",
                      "--sim.parameters", "60000", "--sim.mbit_per_s", "1", "--peers", "4", "--faults", plan, "--history", history)
        with open(history) as f:
            waits = re.findall(r"# ([0-9.]+) host 3: waiting since .* fetch", f.read())
        self.assertLess(max(map(float, waits)), 80)  # 131 without; after that it takes part

    def test_a_real_model_trains(self):
        r = subprocess.run(self.command("--peers", "3", "--steps", "60", "--sim.step_seconds", "0.5", command="simulate"),
                           capture_output=True, text=True, timeout=120)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertLess(float(re.search(r"validation loss ([0-9.]+)", r.stdout).group(1)), 4.0)

    def test_plans_in_files(self):
        toml = os.path.join(self.dir, "plan.toml")
        with open(toml, "w") as f:
            f.write('[[fault]]\nat = 15\nkind = "kill"\nhosts = [1, 2]\n[[fault]]\nat = 20.5\nkind = "restart"\nhosts = [1, 2]\n')
        csv = os.path.join(self.dir, "trace.csv")
        with open(csv, "w") as f:
            f.write("seconds,host,event\n12,3,preempt\n25,3,join\n")
        links = os.path.join(self.dir, "links.csv")
        with open(links, "w") as f:
            f.write("from,to,rtt_ms,mbit_s\nhere,here,1,1000\nhere,there,150,50\nthere,there,1,1000\n")
        r = self.simulate(*self.MODEL, "--peers", "4", "--faults", toml, "--links", links)
        self.assertIn("2 kills, 0 stops, 2 restarts", r.stdout)
        r = self.simulate(*self.MODEL, "--peers", "4", "--faults", csv)
        self.assertIn("1 kills, 0 stops, 1 restarts", r.stdout)
        with open(toml, "a") as f:
            f.write('[[fault]]\nat = 30\nkind = "earthquake"\nhosts = [1]\n')
        self.fails(self.simulate(*self.MODEL, "--faults", toml, code=2), "invalid_argument", "plan.toml:9", "earthquake")
        self.fails(self.simulate(*self.MODEL, "--faults", "everything", code=2), "invalid_argument", "everything")
        for speed in ["sim.flops", "sim.mbit_per_s"]:
            self.fails(self.simulate(*self.MODEL, f"--{speed}", "0", code=2), "invalid_argument", speed, "more than 0")

    def test_a_run_that_cannot_go_on_says_why(self):
        toml = os.path.join(self.dir, "plan.toml")
        with open(toml, "w") as f:
            f.write('[[fault]]\nat = 15\nkind = "power_off"\nhosts = [1, 2]\n')
        r = self.simulate(*self.MODEL, "--peers", "3", "--faults", toml, code=1)
        self.assertIn("NOT THROUGH", r.stdout)
        self.assertIn("no_quorum", r.stdout)


if __name__ == "__main__":
    unittest.main()
