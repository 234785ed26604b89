#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A newcomer joins a run over slow lines: how long that takes, and what it costs the others meanwhile.

Every peer is a real process on a line of --mbit in both directions (bench/support/slow_lines.py). A step computes little, and then waits for --pause
seconds, as for a device that this machine does not have; so few cores are enough, and what is measured is the lines. Needs root, ip and tc.

usage: join_over_slow_line.py PATH_OF_CAUSEWAY [--members 4] [--joins 3] [--mbit 100] [--pause 6] [-- causeway settings]

Each newcomer starts at another moment of a round (the first just after a commit), with nothing but an address, and leaves when it has been
measured. Printed are, for each:
the seconds from the start of its process to the first commit that names it as a member; the same as a multiple of the bare transfer
of the state over one line; the length of the others' rounds before, until then, and in the rest of the minute from its start on; and by how much the
rounds until then were longer than usual, in seconds and as a share of that minute. (The round in which it takes part for the first time is held
against those after it, which exchange with as many peers.) Status 1 if a join took more than three bare transfers, or cost the others more than 5 % of that minute.
"""
import argparse, os, signal, statistics, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "support"))
from slow_lines import Lab, check_machine, until

# 8.5 million parameters: with AdamW's moments 102 MB of state, of which a step exchanges a third.
MODEL = ["--model.layers", "10", "--model.width", "264", "--model.heads", "4", "--model.context", "16", "--data.tokenizer", "bytes",
         "--train.batch", "1", "--train.evaluate_every", "0", "--train.checkpoint_every", "0", "--comm.policy", "every_step"]


def found_run(lab):
    """All members but the newcomers; gives the first one, and the address to join at."""
    settings = ["--steps", "1000000", "--run.journal", "true", "--fault.store_every", "1000", *MODEL, *lab.args.settings]
    address = lab.found_run(lab.args.members, settings, ["--fault.store_every", "1000"])
    return lab.machines[0], address


def lengths(commits):
    return [(b[0] - a[0]) / 1e9 for a, b in zip(commits, commits[1:])]


def join_once(lab, founder, address, share, bare):
    rounds = lengths(founder.commits()[-7:])
    usual = statistics.mean(rounds)
    last = len(founder.commits())
    until("a commit", lambda: len(founder.commits()) > last)
    time.sleep(share * usual)
    known = {peer for c in founder.commits() for peer in c[2]}
    newcomer = lab.machine()
    begin = newcomer.start("join", address, "--fault.store_every", "1000")
    first = until("the newcomer is a member", lambda: next((c for c in founder.commits() if set(c[2]) - known), None))
    took = (first[0] - begin) / 1e9
    until("a minute", lambda: founder.commits()[-1][0] > begin + 60e9)
    commits = founder.commits()
    since = lengths([c for i, c in enumerate(commits) if c[0] > begin or commits[min(i + 1, len(commits) - 1)][0] > begin])
    meanwhile = since[:first[1] - next(c[1] for c in commits if c[0] > begin) + 1]
    with_it = statistics.mean(since[len(meanwhile):])
    lost = sum(meanwhile) - usual * (len(meanwhile) - 1) - with_it
    print(f"a member after {took:.1f} s: {took / bare:.2f} bare transfers of {bare:.1f} s. Rounds of {usual:.2f} s before (from {min(rounds):.2f} to "
          f"{max(rounds):.2f}), of {statistics.mean(meanwhile):.2f} s in the {len(meanwhile)} until it is one, of {with_it:.2f} s after "
          f"that. The others lose {lost:.2f} s until it is a member: {100 * lost / 60:.1f} % of that minute", flush=True)
    newcomer.process.send_signal(signal.SIGINT)
    newcomer.process.wait()
    gone = founder.commits()[-1][1]
    until("rounds without it", lambda: len([c for c in founder.commits() if c[1] > gone and len(c[2]) == lab.args.members]) >= 8)
    return took <= 3 * bare and lost <= 0.05 * 60


def measure(args, folder):
    lab = Lab(args, folder)
    try:
        founder, address = found_run(lab)
        until("seven rounds", lambda: len([c for c in founder.commits() if len(c[2]) == args.members]) >= 8)
        bare = 8 * args.state / (args.mbit * 1e6)
        good = [join_once(lab, founder, address, i / args.joins, bare) for i in range(args.joins)]
        print("all as it must be" if all(good) else "NOT AS IT MUST BE")
        return 0 if all(good) else 1
    finally:
        lab.close()


def main():
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--joins", type=int, default=3)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--pause", type=float, default=6, help="seconds that a step waits after computing")
    parser.add_argument("--state", type=float, default=100e6, help="bytes of the state, if the settings make it another")
    parser.add_argument("--keep", help="a folder to work in, which is left there")
    args = parser.parse_args(arguments[:cut])
    args.program, args.settings = os.path.abspath(args.program), arguments[cut + 1:]
    check_machine()
    with tempfile.TemporaryDirectory() as box:
        return measure(args, os.path.abspath(args.keep or box))


if __name__ == "__main__":
    sys.exit(main())
