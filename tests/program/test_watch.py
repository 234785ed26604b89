#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a run is watched: what peers write down, the page while it trains, the report afterwards, Prometheus, TensorBoard, the terminal."""
import contextlib, glob, http.client, json, os, re, shutil, signal, socket, struct, subprocess, sys, unittest
import wire
from support import PROGRAM, Program, until
import markdown_text  # from tools/, as support.py arranges

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "how_to", "watch_a_run.md")
# Stands in for the package, which wants an account: writes down what it is given.
WANDB = """
import json, os
log = []
class Run:
    def log(self, values): log.append(values)
    def finish(self): open("logged.json", "w").write(json.dumps([steps, log]))
steps = {}
def init(project, name): return Run()
def define_metric(name, step_metric): steps[name] = step_metric
"""
QUORUM = ["--fault.policy", "quorum", "--train.evaluate_every", "20"]


def read(path):
    with open(path) as f:
        return f.read()


def records(path):
    return [json.loads(line) for line in read(path).splitlines()]


def crc32c(data):
    """By its definition, bit for bit, so that it shares nothing with the program's."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """Of a protocol buffer: pairs of a number and a value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[at:at + size]
        at += size


def events(path):
    """The events of a TensorBoard file, each as a dictionary; wrong checksums are errors."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, []
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(crc32c(data[at:at + 8]))
        event = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(crc32c(event))
        found.append(dict(fields(event)))
        at += 16 + length
    return found


class Watched(Program):
    def folder(self, where="runs"):
        return os.path.join(self.dir, where, "causeway")

    @contextlib.contextmanager
    def training(self, *args, command="train", when_started=lambda process: None):
        """A run whose page is up, and that is stopped in the end if it has not come to one."""
        log = os.path.join(self.dir, "out.txt")
        with open(log, "w") as out:
            process = subprocess.Popen(self.command("--page", "0", *args, command=command), stdout=out, stderr=subprocess.STDOUT)
        try:
            when_started(process)
            said = lambda: re.search(r"watch the run at http://127\.0\.0\.1:(\d+)/\n", read(log))
            until(said, process)
            self.port = int(said()[1])
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)

    def get(self, path, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request(method, path, headers=headers)
        r = c.getresponse()
        body = r.read().decode()
        c.close()
        return r.status, r.headers, body

    def raw(self, request):
        """The first line of the answer; empty: the connection was closed without one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            with contextlib.suppress(ConnectionError):
                s.sendall(request)
                return s.recv(100).split(b"\r\n")[0].decode()
        return ""

    def state(self, query=""):
        status, _, body = self.get("/state.json" + query)
        self.assertEqual(status, 200)
        return json.loads(body)


class Metrics(Watched):
    def test_every_peer_writes_one_record_a_step_and_a_restart_takes_back_what_was_not_kept(self):
        args = ["--peers", "2", "--train.evaluate_every", "20", "--train.checkpoint_every", "20"]
        self.assertEqual(self.run_it(*args, "--steps", "40").returncode, 0)
        for peer in range(2):
            path = os.path.join(self.folder(), f"peer-{peer}", "metrics.jsonl")
            found = records(path)
            self.assertTrue(all(r["schema"] == 1 and r["peer"] == peer and r["ts"] > 1e9 for r in found))
            steps = [r for r in found if r["kind"] == "step"]
            self.assertEqual([r["step"] for r in steps], list(range(1, 41)))
            for name in ["loss", "learning_rate", "gradient_norm", "tokens", "compute_seconds", "exchange_seconds"]:
                self.assertIn(name, steps[0])
            self.assertEqual(steps[0]["tokens"], 4 * 32)
            rounds = [r for r in found if r["kind"] == "round"]
            self.assertEqual([r["round"] for r in rounds], [1, 2, 3, 4])
            self.assertGreater(rounds[-1]["bytes_sent"], 4 * found[1]["parameters"])  # both halves of an all-reduce of f32
            self.assertEqual(found[0]["kind"], "start")
            self.assertEqual(found[-1]["kind"], "end")
            links = [r for r in found if r["kind"] == "links"][-1]["links"]
            self.assertEqual([l["peer"] for l in links], [str(1 - peer)])
            self.assertGreater(links[0]["bytes_sent"], 0)
            self.assertLessEqual(links[0]["bytes_sent"], rounds[-1]["bytes_sent"])
        self.assertTrue([r for r in records(os.path.join(self.folder(), "peer-0", "metrics.jsonl")) if r["kind"] == "validation"])
        # A later process goes on from step 40: a line that it never came to, and half a line, go.
        with open(path, "a") as f:
            f.write('{"schema":1,"kind":"step","ts":1,"peer":1,"step":41,"round":4,"loss":9}\n{"schema":1,"kind":"st')
        self.assertEqual(self.run_it(*args, "--steps", "60").returncode, 0)
        steps = [r["step"] for r in records(path) if r["kind"] == "step"]
        self.assertEqual(steps, list(range(1, 61)))


class Page(Watched):
    def test_a_killed_peer_is_seen_while_the_others_train_and_in_the_report(self):
        with self.training("--peers", "3", "--steps", "100000", "--restart", "true", *QUORUM) as process:
            step = lambda: max((r["step"] for r in self.state()["records"] if r["kind"] == "round"), default=0)
            until(lambda: step() > 20, process)
            pid = int(read(os.path.join(self.folder(), "peer-2", "address")).split()[1])
            os.kill(pid, signal.SIGKILL)
            died = lambda: [r for r in self.state()["records"] if r.get("what") == "died"]
            until(died, process)
            self.assertEqual(died()[0]["peer"], 2)
            self.assertIn("was killed by signal 9", died()[0]["text"])
            until(lambda: len([r for r in self.state()["records"] if r["kind"] == "in" and r["peer"] == 2]) == 2, process)
            s = self.state()
            self.assertEqual([p["index"] for p in s["peers"]], [0, 1, 2])
            self.assertTrue(all(p["running"] for p in s["peers"]))
            self.assertEqual(s["settings"]["comm.policy"], "diloco")
            later = self.state(f"?generation={s['generation']}&since={s['next']}")
            self.assertLess(len(later["records"]), len(s["records"]))
            prometheus = self.get("/metrics")[2]
            self.assertRegex(prometheus, r"(?m)^causeway_peer_deaths_total 1$")
            self.assertRegex(prometheus, r'(?m)^causeway_peers\{state="running"\} 3$')
            if shutil.which("promtool"):
                r = subprocess.run(["promtool", "check", "metrics"], input=prometheus, capture_output=True, text=True)
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(process.returncode, 130)
        report = read(os.path.join(self.folder(), "report.html"))
        inside = json.loads(re.search(r"(?m)^const RUN = (\{.*?^.*?\]\});$", report, re.S)[1])
        self.assertTrue([r for r in inside["records"] if r.get("what") == "died"])
        self.assertTrue([r for r in inside["records"] if r["kind"] == "end" and r["interrupted"]])
        browser = shutil.which("chromium")
        if browser:
            dom = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                                  f"--user-data-dir={self.dir}/browser", "--dump-dom",
                                  "file://" + os.path.join(self.folder(), "report.html")],
                                 capture_output=True, text=True, errors="replace", timeout=120).stdout
            self.assertIn("1 died so far", dom)
            self.assertIn("was killed by signal 9", dom)

    def test_strangers_get_an_answer_and_no_more(self):
        with self.training("--peers", "1", "--steps", "100000"):
            status, headers, page = self.get("/")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotRegex(page, r"https?://(?!www\.w3\.org/2000/svg)")  # nothing from elsewhere
            self.assertEqual(self.get("/healthz")[2], "ok\n")
            self.assertEqual(self.get("/", method="HEAD")[2], "")
            self.assertEqual(self.get("/../settings.toml")[0], 404)
            self.assertEqual(self.get("/", method="POST")[0], 405)
            self.assertEqual(self.get("/", Host="evil.example")[0], 421)
            self.assertEqual(self.get("/", Host="localhost:1")[0], 200)
            self.assertEqual(self.get("/state.json?since=x")[0], 400)
            self.assertIn(" 400 ", self.raw(b"GET nowhere HTTP/1.1\r\n\r\n"))
            self.assertIn(" 400 ", self.raw(b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"))
            self.assertIn(" 505 ", self.raw(b"GET / HTTP/2\r\n\r\n"))
            self.assertIn(self.raw(b"GET /" + b"x" * 20000), ["HTTP/1.1 431 Request Header Fields Too Large", ""])
            # Who says nothing takes a place, and nobody has more than there are.
            idle = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(31)]
            self.assertEqual(self.get("/healthz")[0], 200)
            idle += [socket.create_connection(("127.0.0.1", self.port)) for _ in range(9)]
            self.assertEqual(self.raw(b"GET /healthz HTTP/1.1\r\n\r\n"), "")
            for s in idle:
                s.close()
            until(lambda: self.raw(b"GET /healthz HTTP/1.1\r\n\r\n") == "HTTP/1.1 200 OK")

    def test_lines_that_are_none_are_passed_over(self):
        with self.training("--peers", "1", "--steps", "100000"):
            with open(os.path.join(self.folder(), "peer-0", "metrics.jsonl"), "a") as f:
                f.write('\n{"schema":1,"kind":\n[1,2]\n{"schema":99,"kind":"step","peer":0,"step":7}\n{"schema":1,"kind":"event",'
                        '"peer":0,"ts":1,"level":"warning","text":"</script><b>\\"x"}\n')
            until(lambda: [r for r in self.state()["records"] if r.get("text") == '</script><b>"x'])
            self.assertFalse([r for r in self.state()["records"] if r["schema"] != 1])
        self.assertEqual(read(os.path.join(self.folder(), "report.html")).count("</script>"), 1)

    def test_a_page_that_a_variable_asks_for_is_the_launchers_alone(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        for more in [[], ["--fault.policy", "quorum"]]:  # the peers would find the port taken
            r = self.run_it("--peers", "3", "--steps", "20", *more, where="variable" + str(len(more)), env={**os.environ, "CAUSEWAY_WATCH_PAGE": port})
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertEqual(r.stdout.count("watch the run at"), 1)

    def test_a_place_that_cannot_be_is_refused_before_anything_trains(self):
        self.fails(self.run_it("--page", "here"), "invalid_argument", "watch.page", "use PORT or HOST:PORT")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.fails(self.run_it("--page", port), "invalid_argument", "another --page, or 0")
        self.assertFalse(glob.glob(os.path.join(self.folder(), "peer-0", "step-*")))


class OtherMachines(Watched):
    """Two folders stand for two machines."""

    @contextlib.contextmanager
    def joined(self, *args):
        """A run with a page here, and a peer of it elsewhere."""
        with contextlib.ExitStack() as stack:
            def join(process):
                line = lambda: re.search(r"(?m)^ *causeway join (\S+)$", read(os.path.join(self.dir, "out.txt")))
                until(line, process)
                self.address = line()[1]
                other = subprocess.Popen([PROGRAM, "join", self.address, "--run.directory", os.path.join(self.dir, "other"), "--threads", "1"],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                stack.callback(other.wait, 60)
                stack.callback(other.terminate)

            yield stack.enter_context(self.training("--listen", "127.0.0.1:0", "--peers", "2", "--threads", "1", *args, when_started=join))

    def told(self):
        return [o for r in self.state()["records"] if r["kind"] == "told" for o in r["others"]]

    def check(self, o):
        self.assertGreater(o["step"], 0)
        self.assertTrue(0 < o["loss"] < 20)
        self.assertGreater(o["tokens_per_second"], 0)
        self.assertGreater(o["bytes_sent"], 0)
        self.assertGreaterEqual(o["blocked_seconds"], 0)

    def table(self):
        return subprocess.run([PROGRAM, "watch", "causeway", "--run.directory", os.path.join(self.dir, "runs")], capture_output=True, text=True).stdout

    def test_peers_that_come_and_go_tell_each_other_how_they_stand(self):
        with self.joined("--steps", "1000000", *QUORUM) as process:
            until(lambda: [o for o in self.told() if o["step"] > 0], process)  # at first it has not trained yet
            here = records(os.path.join(self.folder(), "peer-0", "metrics.jsonl"))[0]["id"]
            there = records(os.path.join(self.folder("other"), "peer-0", "metrics.jsonl"))[0]
            self.check(self.told()[-1])
            self.assertEqual({(o["peer"], o["address"]) for o in self.told()}, {(there["id"], there["address"])})
            self.assertRegex(self.table(), rf"(?m)^ +\+  elsewhere .* {re.escape(there['address'])}$")
            far = os.path.join(self.folder("other"), "peer-0", "metrics.jsonl")
            until(lambda: [o for r in records(far) if r["kind"] == "told" for o in r["others"] if o["peer"] == here], process)
            # Figures that cannot be end the link of who tells them, and nothing else.
            liar = wire.SilentStranger(self.address, wire.run_id("causeway"))
            liar.tell(struct.pack("<BQQQddd", 0x94, 1, 1, 1, 2.0, float("inf"), 0.0))
            until(lambda: not liar.threads[1].is_alive(), process)
            liar.close()
            before = self.told()[-1]["step"]
            until(lambda: self.told()[-1]["step"] > before, process)
            self.assertEqual({o["peer"] for o in self.told()}, {there["id"]})

    def test_fixed_peers_tell_each_other_with_each_validation(self):
        with self.joined("--steps", "1000000", "--train.evaluate_every", "20") as process:
            until(lambda: [o for o in self.told() if o["step"] > 0], process)
            self.check(self.told()[-1])
            self.assertEqual({o["peer"] for o in self.told()}, {"1"})

    def test_peers_of_one_machine_do_not_tell_what_they_write_down_anyway(self):
        for more in [[], QUORUM]:
            where = "here" + str(len(more))
            self.assertEqual(self.run_it("--peers", "2", "--steps", "60", "--train.evaluate_every", "20", *more, where=where).returncode, 0)
            for peer in range(2):
                found = records(os.path.join(self.folder(where), f"peer-{peer}", "metrics.jsonl"))
                self.assertFalse([r for r in found if r["kind"] == "told"])


class Views(Watched):
    def test_tensorboard_files_have_the_losses(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)  # the check value of CRC-32C
        self.assertEqual(self.run_it("--peers", "2", "--steps", "20", "--tensorboard", where="board").returncode, 0)
        folder = os.path.join(self.folder("board"), "peer-1")
        path, = glob.glob(folder + "/events.out.tfevents.*")
        with open(path, "rb") as f:
            self.assertEqual(f.read(13), bytes.fromhex("1800000000000000a37f4b2209"))  # as every file of TensorBoard's begins
        found = events(path)
        self.assertEqual(found[0][3], b"brain.Event:2")
        scalars = {}
        for e in found[1:]:
            value = dict(fields(dict(fields(e[5]))[1]))
            scalars.setdefault(value[1].decode(), {})[e[2]] = struct.unpack("<f", value[2])[0]
        expected = {r["step"]: r["loss"] for r in records(folder + "/metrics.jsonl") if r["kind"] == "step"}
        self.assertEqual(sorted(scalars["loss"]), sorted(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(scalars["loss"][step], loss, places=5)
        self.assertLessEqual({"learning_rate", "gradient_norm", "tokens_per_second", "bytes_sent"}, set(scalars))
        try:
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        except ImportError:
            return
        theirs = [(e.step, e.summary.value[0].tag) for e in EventFileLoader(path).Load() if e.summary.value]
        self.assertEqual([step for step, tag in theirs if tag == "loss"], sorted(expected))

    def test_a_run_is_seen_in_the_terminal_and_reported_anew(self):
        self.assertEqual(self.run_it("--peers", "2", "--steps", "20").returncode, 0)
        seen = subprocess.run([PROGRAM, "watch", "causeway", "--run.directory", os.path.join(self.dir, "runs")], capture_output=True, text=True)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        for peer in range(2):
            self.assertRegex(seen.stdout, rf"(?m)^ +{peer}  finished +20 +2 ")
        self.assertIn("validation loss", seen.stdout)
        report = os.path.join(self.folder(), "report.html")
        os.remove(report)
        again = subprocess.run([PROGRAM, "report", "--run.directory", os.path.join(self.dir, "runs")], capture_output=True, text=True)
        self.assertEqual((again.returncode, again.stdout.strip()), (0, report))
        self.assertGreater(os.path.getsize(report), 20000)
        self.fails(subprocess.run([PROGRAM, "watch", "nothing", "--run.directory", self.dir], capture_output=True, text=True), "not_found", "no run of this name")

    def test_the_uploader_of_the_page_logs_all_figures_by_their_step(self):
        self.assertEqual(self.run_it("--peers", "2", "--steps", "20", "--train.evaluate_every", "20").returncode, 0)
        code, = [lines for _, info, lines in markdown_text.blocks(read(PAGE)) if info == "python"]
        for name, text in [("upload.py", "\n".join(code)), ("wandb.py", WANDB)]:
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)
        path = os.path.join(self.folder(), "peer-0", "metrics.jsonl")
        r = subprocess.run([sys.executable, "upload.py", path, "mine"], cwd=self.dir, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        steps, logged = json.loads(read(os.path.join(self.dir, "logged.json")))
        self.assertEqual(steps, {"*": "inner_step"})
        self.assertEqual([v["inner_step"] for v in logged if "loss" in v], list(range(1, 21)))
        self.assertEqual({v["inner_step"] for v in logged if "validation_loss" in v}, {20})
        self.assertLessEqual({"tokens_per_second", "bytes_sent", "learning_rate"}, set().union(*logged))
        self.assertFalse({"ts", "peer", "schema", "step", "kind", "state"} & set().union(*logged))

    def test_a_page_without_a_trainer(self):
        self.assertEqual(self.run_it("--peers", "1", "--steps", "10").returncode, 0)
        with self.training(command="watch") as process:
            self.assertEqual(len([r for r in self.state()["records"] if r["kind"] == "step"]), 10)
            self.assertEqual([p["running"] for p in self.state()["peers"]], [False])
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
