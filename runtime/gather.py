"""What every worker found, at the first one."""

from __future__ import annotations

import json

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device


def gather(value: dict) -> list[dict] | None:
    """Every worker's dict at rank 0, as JSON bytes: nothing is unpickled. None elsewhere."""
    if not dist.is_initialized():
        return [value]
    rank, size = dist.get_rank(), dist.get_world_size()
    device = group_device()
    data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(device)
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(data)], device=device))
    width = int(max(lengths))
    padded = torch.zeros(width, dtype=torch.uint8, device=device)
    padded[: len(data)] = data
    rows = [torch.zeros_like(padded) for _ in range(size)]
    dist.all_gather(rows, padded)
    if rank != 0:
        return None
    return [json.loads(bytes(row[: int(n)].cpu().numpy())) for row, n in zip(rows, lengths)]
