"""What time it is on worker 0, by each worker's own clock."""

from __future__ import annotations

import math
import time

import torch
import torch.distributed as dist

_NUM_MESSAGES = 8  # there and back; the quickest counts


def seconds_behind(device: torch.device) -> float:
    """Seconds that this worker's monotonic clock is behind worker 0's. Every worker must call it.

    Each asks worker 0 for its time, one after another; what it says is taken to be the time in the middle of the
    quickest message there and back (Cristian 1989), so the error is at most half of what that took.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    asked = torch.zeros(1, dtype=torch.float64, device=device)
    if rank == 0:
        for peer in range(1, size):
            _answer(peer, asked)
        return 0.0
    least_s, behind_s = math.inf, 0.0
    for _ in range(_NUM_MESSAGES):
        begin_s = time.monotonic()
        dist.send(asked, 0)
        dist.recv(asked, 0)
        told_s = float(asked)  # waits for the device, where there is one
        taken_s = time.monotonic() - begin_s
        if taken_s < least_s:
            least_s, behind_s = taken_s, told_s - (begin_s + taken_s / 2)
    return behind_s


def _answer(peer: int, asked: torch.Tensor) -> None:
    for _ in range(_NUM_MESSAGES):
        dist.recv(asked, peer)
        float(asked)
        dist.send(torch.full_like(asked, time.monotonic()), peer)
