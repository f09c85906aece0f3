"""The mean of numbers that all workers have some of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device


def mean_of_all(own: Sequence[float]) -> float:
    """Over the numbers of all workers; every worker must call it."""
    total = torch.tensor([sum(own), len(own)], dtype=torch.float64)
    if dist.is_initialized():
        total = total.to(group_device())
        dist.all_reduce(total)
    return float(total[0] / total[1])
