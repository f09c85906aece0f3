"""How much memory a worker holds, and held at most."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

import torch


def peak_memory_bytes(device: torch.device) -> int:
    """Peak bytes so far, the setup's among them: CUDA's own counter, or this process's resident high-water mark.

    Pages that the workers of a host share are none of its own: what there is of them now was there at the peak.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - _status_bytes("RssShmem")


def held_memory_bytes(device: torch.device) -> int:
    """Bytes now: CUDA's own counter, or this process's resident pages that no other shares."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return _status_bytes("VmRSS") - _status_bytes("RssShmem")


def _status_bytes(name: str) -> int:
    """As Linux counts them; elsewhere there are none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
