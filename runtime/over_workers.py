"""Numbers over all workers: the least, the largest and the mean. Every worker must ask."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device

NOWHERE = 2**62
"""More than any place in a program or in an epoch."""


def least(own: int) -> int:
    """Of everyone's number."""
    return int(_reduced(torch.tensor([own]), dist.ReduceOp.MIN).item())


def largest(own: Sequence[float]) -> list[float]:
    """Of everyone's numbers each."""
    return _reduced(torch.tensor(own, dtype=torch.float64), dist.ReduceOp.MAX).tolist()


def mean(own: Sequence[float]) -> float:
    """Of everyone's numbers together, however many each has."""
    total, count = _reduced(torch.tensor([sum(own), len(own)], dtype=torch.float64), dist.ReduceOp.SUM).tolist()
    return total / count


def _reduced(own: torch.Tensor, how: dist.ReduceOp.RedOpType) -> torch.Tensor:
    if not dist.is_initialized():
        return own
    numbers = own.to(group_device())
    dist.all_reduce(numbers, how)
    return numbers
