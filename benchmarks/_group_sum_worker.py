"""`torchrun -m benchmarks._group_sum_worker FOLDER ROUNDS`: one worker of the `group_sum` benchmark."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from itertools import count
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks._common import median_and_spread
from benchmarks._exchange_worker import slowest_s
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.partial.mailbox import Mailbox
from gnnplan.runtime.partial.mesh import Mesh, connect_all
from gnnplan.runtime.partial.reduction import sum_over

_SIZES = (2**14, 2**18, 2**21)  # numbers: of a narrow model to one whose input is wide
_LATE_S = 0.01  # workers of a training come to a step at different times
_TIMEOUT_S = 120.0


def main() -> None:
    """Times both sides; rank 0 writes `group_sum.json`."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with reporting_errors(folder, rank):
        dist.init_process_group("gloo", timeout=timedelta(seconds=_TIMEOUT_S))
        mailbox = Mailbox(rank, size, [])
        with closing(Mesh(connect_all(_TIMEOUT_S), mailbox)) as mesh:
            mailbox.open(mesh)
            numbered = count()
            rows = [{"num_bytes": 4 * numbers, **_sides(mailbox, numbers, rounds, numbered)} for numbers in _SIZES]
            dist.barrier()
        dist.destroy_process_group()
        if rank == 0:
            with replacing(folder / "group_sum.json") as temporary:
                temporary.write_text(json.dumps(rows))


def _sides(mailbox: Mailbox, numbers: int, rounds: int, numbered: count) -> dict:
    """Seconds of both sides in turn, and their spread; both give the same sum, in another order.

    Both make a new vector, as a step does.
    """
    everyone = range(mailbox.size)
    flat = torch.rand(numbers, generator=torch.Generator().manual_seed(mailbox.rank))

    def by_mailbox() -> torch.Tensor:
        return sum_over(mailbox, everyone, next(numbered), flat, _TIMEOUT_S)

    def by_gloo() -> torch.Tensor:
        out = flat.clone()
        dist.all_reduce(out)
        return out

    sides: dict[str, Callable[[], torch.Tensor]] = {"mailbox": by_mailbox, "gloo": by_gloo}
    if not torch.allclose(by_mailbox(), by_gloo()):
        raise AssertionError("the sums differ")
    late = random.Random(mailbox.rank)
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            samples[name].append(slowest_s(call, late.random() * _LATE_S))
    told = {}
    for name, seconds in samples.items():
        told[f"{name}_s"], told[f"{name}_spread_s"] = median_and_spread(seconds)
    return told


if __name__ == "__main__":
    main()
