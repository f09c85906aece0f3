"""All-reduce and uneven all-to-all of the backend in use, timed among the actual workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist

from profiles.measure import Timing, clocked

Collective = Literal["all_reduce", "all_to_all"]
COLLECTIVES: tuple[Collective, ...] = ("all_reduce", "all_to_all")
_GROUPS = 5


def time_collective(name: Collective, num_bytes: float, device: torch.device, budget_s: float) -> Timing:
    """Times one collective among all workers; every worker must call this with the same arguments.

    Args:
        num_bytes: of the buffer reduced, or of the rows the busiest worker sends.
    """
    call = _all_reduce(num_bytes, device) if name == "all_reduce" else _all_to_all(num_bytes, device)
    # All workers must make the same number of calls, so the count is agreed on, not timed out.
    call()
    first_s = clocked(call, device, 2) / 2
    wanted = torch.tensor([min(200.0, max(10.0, budget_s / max(first_s, 1e-6)))], device=device)
    dist.all_reduce(wanted, op=dist.ReduceOp.MIN)
    group = int(wanted) // _GROUPS
    low, median, high = np.percentile([clocked(call, device, group) / group for _ in range(_GROUPS)], [25, 50, 75])
    return Timing(float(median), float(high - low), _GROUPS * group)


def _all_reduce(num_bytes: float, device: torch.device) -> Callable[[], object]:
    buffer = torch.zeros(max(1, int(num_bytes) // 4), device=device)
    return lambda: dist.all_reduce(buffer)


def _all_to_all(num_bytes: float, device: torch.device) -> Callable[[], object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    counts = uneven_counts(max(size, int(num_bytes) // 4), size)
    send, recv = counts[rank], [row[rank] for row in counts]
    source, out = torch.zeros(sum(send), device=device), torch.zeros(sum(recv), device=device)
    return lambda: dist.all_to_all_single(out, source, recv, send)


def uneven_counts(busiest: int, num_workers: int) -> list[list[int]]:
    """Elements worker p sends to q: rank 0 sends `busiest` in all, the last about half, nobody to itself."""
    counts = []
    for p in range(num_workers):
        share = busiest * (1 - 0.5 * p / max(1, num_workers - 1)) / max(1, num_workers - 1)
        counts.append([0 if p == q else int(share) for q in range(num_workers)])
    return counts
