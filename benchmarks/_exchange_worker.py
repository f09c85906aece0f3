"""`torchrun -m benchmarks._exchange_worker FOLDER ROUNDS`: one worker of the `exchange` benchmark."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks._common import median_and_spread
from gnnplan.profiles.collectives import even_counts, port_counts
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.exchange import all_to_all
from gnnplan.profiles.launch import reporting_errors

_SIZES = (2**18, 2**20, 2**22)
_LATE_S = 0.01  # workers of a training come to an exchange at different times


def main() -> None:
    """Times both sides over all patterns; rank 0 writes `exchange.json`."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with reporting_errors(folder, rank):
        dist.init_process_group("gloo", timeout=timedelta(seconds=120))
        patterns = {"all": even_counts, "the first": lambda n, w: port_counts(n, w, 0)}
        rows = [
            {"pattern": name, "num_bytes": num_bytes, **_both(counts(num_bytes // 4, size), rank, rounds)}
            for num_bytes in _SIZES
            for name, counts in patterns.items()
        ]
        dist.destroy_process_group()
        if rank == 0:
            with replacing(folder / "exchange.json") as temporary:
                temporary.write_text(json.dumps(rows))


def _both(counts: list[list[int]], rank: int, rounds: int) -> dict:
    send, recv = counts[rank], [row[rank] for row in counts]
    source, out = torch.zeros(sum(send)), torch.zeros(sum(recv))
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: all_to_all(out, source, recv, send),
        "gloo": lambda: dist.all_to_all_single(out, source, recv, send),
    }
    late = random.Random(rank)
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            samples[name].append(slowest_s(call, late.random() * _LATE_S))
    (ours_s, ours_spread_s), (gloo_s, gloo_spread_s) = (median_and_spread(samples[name]) for name in ("ours", "gloo"))
    return {
        "ours_s": ours_s,
        "ours_spread_s": ours_spread_s,
        "gloo_s": gloo_s,
        "gloo_spread_s": gloo_spread_s,
        "speedup": gloo_s / ours_s,
    }


def slowest_s(call: Callable[[], object], late_s: float) -> float:
    """Seconds from the last worker's coming to the last one's end, on the clock the hosts share."""
    dist.barrier()
    time.sleep(late_s)
    begin_s = time.monotonic()
    call()
    edges = torch.tensor([begin_s, time.monotonic()], dtype=torch.float64)
    dist.all_reduce(edges, op=dist.ReduceOp.MAX)
    return float(edges[1] - edges[0])


if __name__ == "__main__":
    main()
