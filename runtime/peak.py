"""How much memory a worker holds, and held at most."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from pathlib import Path

import torch

_BEGINS = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)")
"""Of what smaps says of a mapping: its addresses, rights, offset, device, inode and path."""


def peak_memory_bytes(device: torch.device, rows_in: Path | None = None) -> int:
    """Peak bytes so far, the setup's among them: CUDA's own counter, or this process's resident high-water mark.

    Pages that the workers of a host share are none of its own: what there is of them now was there at the peak.

    Args:
        rows_in: the folder with the files that rows lie in. Pages of these go as soon as others need the room, so what
            counts is what the process has beside them now: its pool holds what it held at the peak (None: no rows do).
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if rows_in is not None:
        return _status_bytes("RssAnon") + _file_bytes_outside(rows_in)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - _status_bytes("RssShmem")


def held_memory_bytes(device: torch.device) -> int:
    """Bytes now: CUDA's own counter, or this process's resident pages that no other shares."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return _status_bytes("VmRSS") - _status_bytes("RssShmem")


def _file_bytes_outside(folder: Path) -> int:
    """Resident pages of files, as of libraries, without those in a folder and without what processes share."""
    found, counts, others = 0, False, (f"{folder.resolve()}/", "/dev/", "/memfd:", "/SYSV")
    with suppress(OSError), Path("/proc/self/smaps").open(errors="replace") as lines:
        for line in lines:
            if begins := _BEGINS.match(line):
                path = begins[1]
                counts = path.startswith("/") and not path.startswith(others)
            elif counts and line.startswith(("Rss:", "Anonymous:")):
                kilobytes = int(line.split()[1])
                found += 1024 * (kilobytes if line.startswith("Rss:") else -kilobytes)
    return found


def _status_bytes(name: str) -> int:
    """As Linux counts them; elsewhere there are none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
