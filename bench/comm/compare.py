#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce: ours, Gloo, Open MPI and MPICH, in one run, taking turns.

    compare.py --ours build/release/bin/bench_comm_allreduce                       # 4 processes, loopback, 64 MiB
    compare.py --ours ... --in-namespaces lk0,lk1,lk2,lk3 --addresses 10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4 \
               --interface tun0 --line-mbit 100                              # behind any network emulator
    compare.py --ours ... --ours-variants "shared memory=,tcp=--shared-memory off" --contenders gloo,mpi_memory,mpich

With --in-namespaces each process runs in the named network namespace (needs root); who makes them, and how slow they are,
is up to you: netem, a router, or another emulator. --congestion sets the system's congestion control there, for all three;
ours asks for BBR by itself unless --ours-variants says otherwise. Every contender runs --rounds times, in turns; the table
gives seconds (min, median, max of all repeats) and bus bandwidth = 2 (n-1)/n * size / median.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 29400


def next_port() -> int:
    global PORT
    PORT += 1
    return PORT


def inside(args, rank):
    return ["ip", "netns", "exec", args.in_namespaces[rank]] if args.in_namespaces else []


def run_ranks(args, command, environment=lambda rank: {}):
    """Starts one process per rank, rank 0 last, and gives rank 0's output."""
    processes = []
    for rank in list(range(1, args.peers)) + [0]:
        env = dict(os.environ, OMP_NUM_THREADS="1", **environment(rank))
        out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
        processes.append(subprocess.Popen(inside(args, rank) + command(rank), env=env, stdout=out, text=True))
    try:
        output, _ = processes[-1].communicate(timeout=args.patience)
        if any(p.wait(timeout=30) != 0 for p in processes):
            raise RuntimeError("a process failed")
        return output
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
                p.wait()


def seconds_of(output):
    line = re.search(r"seconds (.*)", output)
    return [float(t) for t in line.group(1).split()]


def ours(args, extra):
    port = next_port()

    def command(rank):
        line = [args.ours, "--rank", str(rank), "--peers", str(args.peers), "--host", f"{args.addresses[0]}:{port}",
                "--listen", f"{args.addresses[rank]}:0", "--mib", str(args.mib), "--repeats", str(args.repeats),
                "--warm", str(args.warm)]
        return line + extra.split()

    return seconds_of(run_ranks(args, command))


def gloo(args):
    port = str(next_port())

    def environment(rank):
        return {"RANK": str(rank), "WORLD_SIZE": str(args.peers), "MASTER_ADDR": args.addresses[0], "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": args.interface}

    line = [args.python, os.path.join(HERE, "gloo_allreduce.py"), str(args.mib), str(args.repeats), str(args.warm)]
    return seconds_of(run_ranks(args, lambda rank: line, environment))


def mpi_program(folder, flavour):
    program = os.path.join(folder, f"{flavour}_allreduce")
    if not os.path.exists(program):
        subprocess.run([f"mpicc.{flavour}", "-O2", os.path.join(HERE, "mpi_allreduce.c"), "-o", program], check=True)
    return program


def mpich(args, folder):
    """Shared memory, which is what it takes on one machine."""
    line = ["mpirun.mpich", "-n", str(args.peers), mpi_program(folder, "mpich"), str(args.mib), str(args.repeats), str(args.warm)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=args.patience, check=True)
    return seconds_of(done.stdout)


def open_mpi(args, folder, memory=False):
    program = mpi_program(folder, "openmpi")
    line = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(args.peers), "--mca", "pml", "ob1",
            "--mca", "btl"]
    line += ["vader,self"] if memory else ["tcp,self", "--mca", "btl_tcp_if_include", args.interface]
    if args.in_namespaces:
        line += mpi_namespaces(args, folder)
    line += [program, str(args.mib), str(args.repeats), str(args.warm)]
    done = subprocess.run(inside(args, 0) + line, stdout=subprocess.PIPE, text=True, timeout=args.patience, check=True)
    return seconds_of(done.stdout)


def mpi_namespaces(args, folder):
    """A host file with every address, and an agent that enters the namespace of an address instead of using ssh."""
    agent, hosts = os.path.join(folder, "agent"), os.path.join(folder, "hosts")
    with open(agent, "w") as f:
        f.write('#!/bin/bash\nhost=$1; shift\ncase $host in\n')
        for address, namespace in zip(args.addresses, args.in_namespaces):
            f.write(f'{address}) exec ip netns exec {namespace} bash -c "$*";;\n')
        f.write("esac\nexit 1\n")
    os.chmod(agent, 0o755)
    with open(hosts, "w") as f:
        f.writelines(f"{address} slots=1\n" for address in args.addresses)
    return ["--hostfile", hosts, "--mca", "plm_rsh_agent", agent, "--mca", "routed", "direct", "--mca",
            "oob_tcp_if_include", args.interface]


def set_congestion(args):
    for rank in range(args.peers):
        subprocess.run(inside(args, rank) + ["sysctl", "-q", f"net.ipv4.tcp_congestion_control={args.congestion}"],
                       check=True)


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the program bench_comm_allreduce")
    p.add_argument("--ours-variants", default="none=", help="name=options,name=options: variants of ours to run")
    p.add_argument("--contenders", default="gloo,mpi",
                   help="of gloo, mpi (Open MPI over TCP), mpi_memory (Open MPI over shared memory), mpich; or nothing")
    p.add_argument("--python", default="/usr/bin/python3", help="a Python that has torch with Gloo")
    p.add_argument("--peers", type=int, default=4)
    p.add_argument("--mib", type=float, default=64)
    p.add_argument("--repeats", type=int, default=10)
    p.add_argument("--warm", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--patience", type=float, default=900, help="seconds before a contender is given up")
    p.add_argument("--in-namespaces", default="", help="one network namespace per peer")
    p.add_argument("--addresses", default="", help="one address per peer; default: loopback")
    p.add_argument("--interface", default="lo")
    p.add_argument("--line-mbit", type=float, default=0, help="rate of a peer's line, to print percentages")
    p.add_argument("--congestion", default="", help="congestion control to set in the namespaces")
    args = p.parse_args()
    args.in_namespaces = args.in_namespaces.split(",") if args.in_namespaces else []
    args.addresses = args.addresses.split(",") if args.addresses else ["127.0.0.1"] * args.peers
    if args.congestion and not args.in_namespaces:
        sys.exit("--congestion changes a system setting: only inside namespaces")
    return args


def print_table(args, times):
    size = args.mib * 2**20
    moved = 2 * (args.peers - 1) / args.peers * size
    print(f"all-reduce of {args.mib:g} MiB f32, {args.peers} peers, {args.repeats} repeats x {args.rounds} rounds")
    print(f"{'':24}{'min s':>9}{'median s':>10}{'max s':>9}{'bus MB/s':>10}" + ("  of line" if args.line_mbit else ""))
    for name, t in times.items():
        if not t:
            print(f"{name:24} gave no result")
            continue
        median = statistics.median(t)
        line = f"{name:24}{min(t):9.4f}{median:10.4f}{max(t):9.4f}{moved / median / 1e6:10.1f}"
        if args.line_mbit:
            line += f"{moved * 8 / median / 1e6 / args.line_mbit:9.1%}"
        print(line)


def main():
    args = read_arguments()
    if args.congestion:
        set_congestion(args)
    folder = tempfile.mkdtemp(prefix="compare-")
    contenders = {}
    for variant in args.ours_variants.split(","):
        name, _, options = variant.partition("=")
        contenders[f"causeway {name}"] = lambda o=options: ours(args, o)
    wanted = args.contenders.split(",")
    if "gloo" in wanted:
        contenders["gloo"] = lambda: gloo(args)
    if "mpi" in wanted:
        contenders["open mpi, tcp"] = lambda: open_mpi(args, folder)
    if "mpi_memory" in wanted:
        contenders["open mpi, memory"] = lambda: open_mpi(args, folder, memory=True)
    if "mpich" in wanted:
        contenders["mpich, memory"] = lambda: mpich(args, folder)
    times = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            try:
                times[name] += run()
            except (RuntimeError, subprocess.SubprocessError, AttributeError) as why:
                print(f"{name}: {why}", file=sys.stderr)
            time.sleep(0.2)
    print_table(args, times)
    shutil.rmtree(folder)


main()
