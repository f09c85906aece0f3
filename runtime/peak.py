"""How much memory a worker holds, and held at most."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

import torch


def peak_memory_bytes(device: torch.device, libraries_bytes: int | None = None) -> int:
    """Peak bytes so far, the setup's among them: CUDA's own counter, or this process's resident high-water mark.

    Pages that the workers of a host share are none of its own: what there is of them now was there at the peak.

    Args:
        libraries_bytes: pages of files before rows lay in some. These go as soon as others need the room, so what
            counts is what the process has beside them now: its pool holds what it held at the peak (None: no rows do).
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if libraries_bytes is not None:
        return held_memory_bytes(device) - file_pages_bytes() + libraries_bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - _status_bytes("RssShmem")


def held_memory_bytes(device: torch.device) -> int:
    """Bytes now: CUDA's own counter, or this process's resident pages that no other shares."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return _status_bytes("VmRSS") - _status_bytes("RssShmem")


def file_pages_bytes() -> int:
    """Resident pages of files now: of libraries, and of what is mapped."""
    return _status_bytes("RssFile")


def _status_bytes(name: str) -> int:
    """As Linux counts them; elsewhere there are none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
