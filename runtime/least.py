"""The least of a number over all workers."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device

NOWHERE = 2**62
"""More than any place in a program or in an epoch."""


def least(own: int) -> int:
    """Over all workers."""
    if not dist.is_initialized():
        return own
    device = group_device()
    number = torch.tensor([own], device=device)
    dist.all_reduce(number, dist.ReduceOp.MIN)
    return int(number.item())
