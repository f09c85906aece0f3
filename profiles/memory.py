"""How much memory there is for a worker, on its device and on its host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

from gnnplan.profiles.cgroups import groups_of
from gnnplan.profiles.errors import UserError


def worker_memory_bytes(device: torch.device, num_workers: int) -> int:
    """What one of `num_workers` workers of this host may use: all of its GPU, or its part of the main memory."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup_limit_bytes()
    return int(min(physical, limit or physical) // num_workers)


def available_bytes() -> int:
    """Main memory that can still be had without swapping: by the kernel's estimate, and what control groups leave."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return min([available, *(max(0, limit - _used_bytes(group)) for limit, group in _limiting_groups())])


def check_fits(num_bytes: int, where: str, what: str) -> None:
    """`UserError` where so many bytes are more than the main memory that is free.

    Args:
        where: the file or the generator.
        what: takes them, in words.
    """
    free_bytes = available_bytes()
    if num_bytes > free_bytes:
        raise UserError(f"{where}: {what} would take {num_bytes:,} bytes, and {free_bytes:,} are free")


def _cgroup_limit_bytes() -> int | None:
    return min((limit for limit, _ in _limiting_groups()), default=None)


def _used_bytes(group: Path) -> int:
    """Of a group and those below it, without pages of files that nothing maps, which give way."""
    used = _first_number(group / "memory.current", group / "memory.usage_in_bytes") or 0
    with suppress(OSError):
        figures = dict(map(_entry, (group / "memory.stat").read_text().splitlines()))
        used -= figures.get("total_inactive_file", figures.get("inactive_file", 0))  # version 1 has a figure of its own
    return used


def _limiting_groups() -> Iterator[tuple[int, Path]]:
    """Limits of this process's control group and of those above it, in bytes, each with its group."""
    for group in groups_of("memory"):
        limit = _first_number(group / "memory.max", group / "memory.limit_in_bytes")
        if limit is not None:
            yield limit, group


def _entry(line: str) -> tuple[str, int]:
    name, value = line.split()
    return name, int(value)


def _first_number(*paths: Path) -> int | None:
    for path in paths:
        with suppress(OSError, ValueError):  # not this cgroup version, or "max"
            return int(path.read_text())
    return None
