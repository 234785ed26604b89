#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of an all-reduce through Gloo (torch.distributed). Started by compare.py.

Usage: RANK=r WORLD_SIZE=n MASTER_ADDR=a MASTER_PORT=p GLOO_SOCKET_IFNAME=i gloo_allreduce.py MIB REPEATS WARM
Rank 0 prints one line "seconds t t t ...".
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    mib, repeats, warm = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=900))
    x = torch.empty(int(mib * 262144))
    times = []
    for repeat in range(repeats + warm):
        x.fill_(float(dist.get_rank() + 1))
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        took = time.perf_counter() - start
        n = dist.get_world_size()
        if x[0] != n * (n + 1) / 2 or x[-1] != x[0]:
            sys.exit("wrong result")
        if repeat >= warm:
            times.append(took)
    if dist.get_rank() == 0:
        print("seconds", *times)
    dist.barrier()
    dist.destroy_process_group()


main()
