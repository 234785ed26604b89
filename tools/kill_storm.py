#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the peers of a quorum run on this machine, at random moments and at every named point, starts them again, and checks
what they wrote down. docs/how_to/kill_storm.md says how to read what it prints.

usage: kill_storm.py PATH_OF_CAUSEWAY [--kills 200] [--peers 8] [--seed 1] [--policy diloco] [--keep FOLDER] [-- causeway settings]
       kill_storm.py PATH_OF_CAUSEWAY --storm SECONDS [--every 15] [--peers 8] [--seed 1] [--policy diloco] [-- causeway settings]
       kill_storm.py PATH_OF_CAUSEWAY --all [--storm SECONDS] [--every SECONDS] [--peers 8] [--seed 1] [-- causeway settings]
       kill_storm.py PATH_OF_CAUSEWAY --not-finite 200 [--every 10] [--peers 8] [--policy diloco] [-- causeway settings]

Without --storm: --kills kills of 1 to peers-1 victims at once; where the policy has a hub, it is among them in every fourth wave
at least. Status 1 if a rule was broken: a round lost, two states for one
round, a survivor's training thrown away, a run that does not go on.
With --storm: one kill every --every seconds, and a run without kills over as many tokens; prints both validation losses.
With --all: such storms of the ten policies of docs/benchmarks-reliability.md, each as there unless told otherwise, and a table
of them. Status 1 if a ratio of losses is above 1.02, or nobody trained to the end.
With --not-finite: a run of so many rounds, in every --every-th of which one peer's parameters become NaN, and a run without that
peer over as many tokens. Status 1 if a round was lost, a peer ended before the end, or the losses differ by more than 1 %.
"""
import argparse, collections, json, os, random, re, signal, statistics, subprocess, sys, tempfile, time

from small_text import words

SMALL = ["--model.layers", "2", "--model.width", "32", "--model.heads", "2", "--model.context", "32", "--data.tokenizer", "bytes",
         "--train.batch", "4", "--train.evaluate_tokens", "1024", "--comm.local_steps", "10"]
POINTS = ["joining", "fetching", "fetched", "before_ready", "entered", "mid_exchange", "exchanged", "before_store", "stored", "voted",
          "committed"]
# Of the policies of docs/benchmarks-reliability.md: seconds, seconds from kill to kill, settings.
STORMS = {
    "streaming_diloco": (100, 1.4, []),
    "eager_diloco": (100, 1.4, ["--comm.outer_momentum", "0.6"]),
    "sparse_loco": (130, 1.3, []),
    "cocktail_sgd": (100, 1.4, []),
    "dedloc": (160, 2, ["--comm.batch_samples", "96", "--train.learning_rate", "0.01"]),
    "moshpit_sgd": (100, 1.4, []),
    "noloco": (100, 1.4, []),
    "sparta": (100, 1.4, []),
    "demo": (100, 1.4, []),
    "decoupled_diloco": (100, 1.4, ["--comm.fragments", "4"]),
}
MOST = 1.02  # validation loss of a storm / without one
PATIENCE = 120  # seconds without a commit after which a run counts as stuck


class Run:
    """The processes of one run, each peer's folder, and when it was killed and started."""

    launched = []  # of all runs

    def __init__(self, program, folder, peers, settings):
        self.program, self.folder, self.peers = program, folder, peers
        self.text = os.path.join(folder, "text.txt")
        os.makedirs(folder, exist_ok=True)
        with open(self.text, "w") as f:
            f.write(words(20000))
        self.settings = ["--run.directory", folder, "--data.path", self.text, "--threads", "1", *SMALL, *settings]
        self.processes = {}
        self.point = {}
        self.kills = []     # (moment, victims, survivors, how)
        self.hubs_killed = 0
        self.restarts = []  # (moment, peer)

    def path(self, peer, name=""):
        return os.path.join(self.folder, "causeway", f"peer-{peer}", name)

    def launch(self, *more, failpoint=None):
        env = dict(os.environ)
        env.pop("CAUSEWAY_FAILPOINT", None)
        if failpoint:
            env["CAUSEWAY_FAILPOINT"] = failpoint
        launcher = subprocess.Popen([self.program, "train", "--fault.policy", "quorum", "--run.journal", "true", "--peers", str(self.peers),
                                     *self.settings, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=env)
        Run.launched.append(launcher)
        return launcher

    def start(self, peer, point=None):
        env = dict(os.environ)
        env.pop("CAUSEWAY_FAILPOINT", None)
        if point:
            env["CAUSEWAY_FAILPOINT"] = point
        self.restarts.append((time.monotonic_ns(), peer))
        self.point[peer] = point
        self.processes[peer] = subprocess.Popen(
            [self.program, "peer", "--run.directory", self.folder, "--data.path", self.text, "--net.index", str(peer), "--net.threads", "1",
             "--quiet", "true"], stdout=subprocess.DEVNULL, stderr=open(self.path(peer, "stderr.txt"), "a"), start_new_session=True, env=env)
        Run.launched.append(self.processes[peer])

    def kill(self, victims, how):
        survivors = [p for p in self.alive() if p not in victims]
        self.kills.append((time.monotonic_ns(), list(victims), survivors, how))
        for v in victims:
            self.processes[v].kill()
        for v in victims:
            self.processes[v].wait()

    def alive(self):
        return [p for p, process in self.processes.items() if process.poll() is None]

    def rounds(self, peer):
        found = []
        try:
            with open(self.path(peer, "rounds.jsonl")) as f:
                for line in f:
                    if line.endswith("}\n"):
                        found.append(json.loads(line))
        except FileNotFoundError:
            pass
        return found

    def newest(self):
        """The newest round that any peer has written down."""
        best = 0
        for p in range(self.peers):
            try:
                with open(self.path(p, "rounds.jsonl"), "rb") as f:
                    f.seek(max(0, os.path.getsize(f.name) - 4096))
                    tail = [l for l in f.read().decode().split("\n")[:-1] if l.endswith("}")]
                if tail:
                    best = max(best, int(re.search(r'"round":(\d+)', tail[-1]).group(1)))
            except FileNotFoundError:
                pass
        return best

    def hub(self):
        """The peer that said last that it is the hub of the others, where the policy has one."""
        newest, who = 0, None
        for p in range(self.peers):
            try:
                with open(self.path(p, "log.txt"), errors="replace") as f:
                    said = [int(n) for n in re.findall(r"round (\d+): this peer is the hub", f.read())]
            except FileNotFoundError:
                continue
            if said and max(said) > newest:
                newest, who = max(said), p
        return who

    def wait(self, done, patience=PATIENCE):
        end = time.monotonic() + patience
        while not done():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def stop(self):
        for p in self.alive():
            self.processes[p].terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


class Journals:
    """What the peers wrote down, by peer number."""

    def __init__(self, run):
        self.events = {}
        self.number = {}  # id -> peer number
        for p in range(run.peers):
            events = []
            with open(run.path(p, "journal.txt")) as f:
                for line in f:
                    if not line.endswith("\n"):
                        continue
                    at, who, kind, *fields = line.rstrip("\n").split(" ")
                    e = dict(f.split("=", 1) for f in fields if "=" in f)
                    e.update(at=int(at), id=who, kind=kind)
                    events.append(e)
                    self.number[who] = p
            self.events[p] = events

    def commits_after(self, moment, peers):
        return min((e["at"] for p in peers for e in self.events[p] if e["kind"] == "commit" and e["at"] > moment), default=None)

    def committed(self):
        """All rounds that somebody committed; journals leave a 0 out, as that of the founding."""
        return {int(e.get("round", 0)) for events in self.events.values() for e in events if e["kind"] == "commit"}

    def states(self):
        found = collections.defaultdict(set)
        for p, events in self.events.items():
            for e in events:
                if e["kind"] in ("commit", "held"):
                    found[int(e.get("round", 0))].add(e.get("hash"))
        return found

    def discarded(self, run):
        """Samples that a peer trained on in a life that no kill ended in between, and that it never contributed: of peers that were
        in, and of peers that had just been started. A round that began while they were dead may give what they hold to others, and
        nobody tells them before it is committed."""
        lost = [0, 0]
        contributed = collections.Counter()
        seen = set()
        for events in self.events.values():
            for e in events:
                if e["kind"] == "commit" and e.get("round") not in seen:
                    seen.add(e.get("round"))
                    for c in filter(None, e.get("contributions", "").split(",")):
                        who, n = c.split(":")
                        contributed[(who, int(e["round"]))] += int(n)
        for p, events in self.events.items():
            life = []
            for e in [*events, {"kind": "boot"}]:
                if e["kind"] == "boot":
                    lost = [a + b for a, b in zip(lost, self.lost_in(life, contributed))]
                    life = []
                life.append(e)
        return lost

    @staticmethod
    def lost_in(life, contributed):
        # What was trained for a round is contributed in it or kept for the next one: it may only grow until it is committed.
        lost = [0, 0]
        before = None
        is_in = False
        for e in life:
            if e["kind"] != "trained":
                took_part = e["kind"] == "commit" and e["id"] in [c.split(":")[0] for c in e.get("contributions", "").split(",")]
                is_in = is_in or (took_part and before is not None and int(e["round"]) >= int(before[1]))
                continue
            ranges = [tuple(map(int, r.split(":"))) for r in filter(None, e.get("ranges", "").split(","))]
            numbers = {n for first, count in ranges for n in range(first, first + count)}
            if before is not None:
                who, start, old = before
                gone = sum(contributed[(who, r)] for r in range(start, int(e["round"])))
                kept = len(old & numbers)
                lost[0 if is_in else 1] += max(0, len(old) - kept - gone)
            before = (e["id"], int(e["round"]), numbers)
        return lost


def spread(name, values):
    if not values:
        return print(f"{name}: none measured")
    values = sorted(values)
    at = lambda q: values[min(len(values) - 1, int(q * len(values)))]
    print(f"{name}: median {at(0.5):.2f} s, 90 % {at(0.9):.2f} s, most {values[-1]:.2f} s ({len(values)} measured)")


def storm_of_kills(args, folder):
    draw = random.Random(args.seed)
    run = Run(args.program, folder, args.peers, ["--steps", "100000000", *args.settings])
    launcher = run.launch()
    try:
        ok = run.wait(lambda: run.newest() >= 2)
        launcher.kill()  # the peers go on without it
        launcher.wait()
        if not ok:
            return print("the run did not begin") or 1
        take_over(run)
        return kill_and_start(args, run, draw)
    finally:
        launcher.kill()
        run.stop()


def take_over(run):
    """The launcher's children are nobody's now: each is ended and started again as ours, one after the other."""
    for p in range(run.peers):
        with open(run.path(p, "address")) as f:
            pid = int(f.read().split()[1])
        with open(f"/proc/{pid}/cmdline") as f:
            assert run.folder in f.read()
        os.kill(pid, signal.SIGKILL)
        run.wait(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z")
        run.start(p)
        before = run.newest()
        run.wait(lambda: run.newest() > before)
        held = len(run.rounds(p))
        run.wait(lambda: len(run.rounds(p)) > held, 30)


def kill_and_start(args, run, draw):
    killed, stuck, turn = 0, 0, 0
    points = list(POINTS)
    draw.shuffle(points)
    while killed < args.kills and not stuck:
        turn += 1
        count = draw.choice([1, 1, 1, 2, 2, 3, *range(1, run.peers)])
        victims = draw.sample(range(run.peers), min(count, run.peers - 1, args.kills - killed))
        hub = run.hub()
        if turn % 4 == 0 and hub is not None and hub not in victims:
            victims[0] = hub
        run.hubs_killed += hub in victims
        if turn % 2 == 0:
            time.sleep(draw.uniform(0, 0.5))
            how = "at a random moment"
            run.kill(victims, how)
        else:  # they die again, on their own, at a point that they pass
            how = points[turn // 2 % len(points)]
            point = f"{how}:{draw.randint(1, 12 if how == 'mid_exchange' else 2)}"
            run.kill(victims, "to be started with " + point)
            for v in victims:
                run.start(v, point)
            run.wait(lambda: not any(v in run.alive() for v in victims), 10)
            died = [v for v in victims if v not in run.alive()]
            run.kills.append((time.monotonic_ns(), died, run.alive(), how))
            run.kill([v for v in victims if v in run.alive()], "did not pass " + point)
        killed += len(victims)
        time.sleep(draw.choice([0, 0, draw.uniform(0, 1)]))
        before = run.newest()
        for v in victims:
            run.start(v)
        if not run.wait(lambda: run.newest() > before + 1):
            stuck = 1
        if sys.stdout.isatty():
            print(f"\r\033[K{killed} kills, round {run.newest()}, {len(victims)} {how}", end="", flush=True)
    reached = run.newest()
    run.wait(lambda: all((run.rounds(p) or [{"round": 0}])[-1]["round"] >= reached for p in range(run.peers)), 60)
    everybody = sum((run.rounds(p) or [{"round": 0}])[-1]["round"] >= reached for p in range(run.peers))
    run.stop()
    return report(args, run, killed, stuck, everybody)


def report(args, run, killed, stuck, everybody):
    hubs = f", {run.hubs_killed} with the hub in them" if run.hub() is not None else ""
    print(f"\n{killed} kills of {run.peers} peers in {len(run.kills)} waves{hubs}, {len(run.restarts)} starts, {run.newest()} rounds")
    check = subprocess.run([args.program, "check-journal", os.path.join(run.folder, "causeway")], capture_output=True, text=True)
    print(check.stdout.strip() + check.stderr.strip())
    j = Journals(run)
    forked = {r: s for r, s in j.states().items() if len(s) > 1}
    backwards = sum(1 for p in range(run.peers) for a, b in zip(run.rounds(p), run.rounds(p)[1:]) if b["round"] < a["round"])
    lost, just_started = j.discarded(run)
    print(f"rounds with two states: {len(forked)}; rounds that went back on a disk: {backwards}; survivors' samples thrown away: {lost} "
          f"(of peers that had just been started: {just_started})")
    print(f"{everybody} of {run.peers} peers hold the newest round" + ("; THE RUN IS STUCK" if stuck else ""))
    kill_to_commit = []
    for moment, victims, survivors, how in run.kills:
        if victims and len(survivors) > run.peers // 2:
            after = j.commits_after(moment, survivors)
            if after:
                kill_to_commit.append((after - moment) / 1e9)
    spread("from a kill to the survivors' next commit", kill_to_commit)
    back = []
    for i, (moment, peer) in enumerate(run.restarts):
        next_death = min((m for m, v, s, h in run.kills if m > moment and peer in v), default=float("inf"))
        held = [e["at"] for e in j.events[peer] if e["kind"] == "held" and moment < e["at"] < next_death]
        if held:
            back.append((held[0] - moment) / 1e9)
    spread("from a start to holding the others' state", back)
    bad = check.returncode != 0 or forked or backwards or lost or stuck or everybody < run.peers
    print("NOT AS IT MUST BE" if bad else "all as it must be")
    return 1 if bad else 0


def storm_against_calm(args, folder):
    """What there was of both runs, as cells of a table, and the ratio of their losses; None if nobody trained to the end."""
    losses = {}
    steps = args.steps or calibrate(args, os.path.join(folder, "speed"))
    for name in ["storm", "calm"]:
        run = Run(args.program, os.path.join(folder, name), args.peers, ["--steps", str(steps), *args.settings])
        draw = random.Random(args.seed)
        begin, kills = time.monotonic(), 0
        launcher = run.launch("--restart", "true")
        while launcher.poll() is None:
            time.sleep(0.05)
            if name == "storm" and time.monotonic() - begin > (kills + 1) * (args.every or 15):
                kills += 1
                kill_one(run, draw)
        losses[name] = results(run)
        if not losses[name]:
            return print(f"{name}: nobody trained to the end")
        if name == "storm":
            cells = [str(kills), f"{run.newest():,}", f"{steps * run.peers:,}", f"{len(losses[name])} of {run.peers}"]
        print(f"{name}: {time.monotonic() - begin:.0f} s, {kills} kills, {run.newest()} rounds, {len(losses[name])} of {run.peers} peers "
              f"trained to the end, {steps * run.peers} inner steps of samples, validation loss {statistics.mean(losses[name]):.4f}")
    ratio = statistics.mean(losses["storm"]) / statistics.mean(losses["calm"])
    print(f"validation loss of the storm / of the calm: {ratio:.4f}")
    return [*cells, f"{statistics.mean(losses['storm']):.4f}, {statistics.mean(losses['calm']):.4f}"], ratio


def all_storms(args, folder):
    bad, rows = False, []
    for policy, (seconds, every, settings) in STORMS.items():
        print(f"---- {policy}", flush=True)
        one = argparse.Namespace(**{**vars(args), "storm": args.storm or seconds, "every": args.every or every,
                                    "settings": ["--comm.policy", policy, *settings, *args.settings]})
        found = storm_against_calm(one, os.path.join(folder, policy))
        bad |= found is None or not found[1] <= MOST
        cells, ratio = found or (["", "", "", "none", ""], float("nan"))
        rows.append([f"`{policy}`", *cells, f"{ratio:.4f}", "yes" if ratio <= MOST else "no"])
    head = ["policy", "kills", "rounds", "inner steps of samples", "trained to the end", "validation loss with, without", "ratio",
            f"at most {MOST}"]
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")
    return 1 if bad else 0


def one_not_finite(args, folder):
    every, local_steps = int(args.every or 10), int(SMALL[SMALL.index("--comm.local_steps") + 1])
    found, bad = {}, False
    for name, peers, failpoint in [("spoilt", args.peers, f"not_finite:{every}@{args.peers - 1}"), ("without it", args.peers - 1, None)]:
        steps = args.not_finite * local_steps * args.peers // peers  # of each peer, so that all tokens are as many
        run = Run(args.program, os.path.join(folder, name.replace(" ", "_")), peers, ["--steps", str(steps), *args.settings])
        status = run.launch(failpoint=failpoint).wait()
        losses = results(run)
        check = subprocess.run([args.program, "check-journal", os.path.join(run.folder, "causeway")], capture_output=True, text=True)
        lost = set(range(1, run.newest() + 1)) - Journals(run).committed()
        print(f"{name}: status {status}, {run.newest()} rounds, {len(lost)} of them lost, {len(losses)} of {peers} peers trained to the end"
              + (f", validation loss {statistics.mean(losses):.4f}" if losses else ""))
        print(check.stdout.strip() + check.stderr.strip())
        bad |= status != 0 or check.returncode != 0 or bool(lost) or len(losses) < peers
        found[name] = statistics.mean(losses) if losses else float("nan")
    ratio = found["spoilt"] / found["without it"]
    print(f"validation loss with the spoilt peer / without it: {ratio:.4f}")
    bad |= not abs(ratio - 1) <= 0.01
    print("NOT AS IT MUST BE" if bad else "all as it must be")
    return 1 if bad else 0


def calibrate(args, folder):
    run = Run(args.program, folder, args.peers, ["--steps", "200", *args.settings])
    begin = time.monotonic()
    run.launch().wait()
    return max(200, int(200 * args.storm / (time.monotonic() - begin)))


def kill_one(run, draw):
    peer = draw.randrange(run.peers)
    try:
        with open(run.path(peer, "address")) as f:
            pid = int(f.read().split()[1])
        with open(f"/proc/{pid}/cmdline") as f:
            if run.folder in f.read():
                os.kill(pid, signal.SIGKILL)
    except (OSError, IndexError):
        pass


def results(run):
    found = []
    for p in range(run.peers):
        try:
            with open(run.path(p, "result.json")) as f:
                found.append(json.load(f)["validation"])
        except FileNotFoundError:
            pass
    return found


def read_arguments(arguments):
    """Behind `--` stand settings of the program. argparse would take them only right behind the program's path."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy")
    parser.add_argument("--storm", type=float)
    parser.add_argument("--every", type=float)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--not-finite", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--keep")
    args = parser.parse_args(arguments[:cut])
    args.settings = ["--comm.policy", args.policy] if args.policy else []
    args.settings += arguments[cut + 1:]
    if args.all and (args.policy or args.not_finite):
        parser.error("--all has policies of its own, and is of storms; leave the other one out")
    return args


def main():
    args = read_arguments(sys.argv[1:])
    args.program = os.path.abspath(args.program)
    with tempfile.TemporaryDirectory() as box:
        folder = os.path.abspath(args.keep or box)
        try:
            if args.not_finite:
                return one_not_finite(args, folder)
            if args.all:
                return all_storms(args, folder)
            if args.storm:
                return 0 if storm_against_calm(args, folder) else 1
            return storm_of_kills(args, folder)
        except KeyboardInterrupt:
            for process in Run.launched:
                process.send_signal(signal.SIGINT)  # a launcher ends its peers
            for process in Run.launched:
                process.wait()
            return 130


if __name__ == "__main__":
    sys.exit(main())
