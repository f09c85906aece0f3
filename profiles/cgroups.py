"""This process's control groups, of version 1 or 2, and the limit on processor time that they set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_US_PER_S = 1e6
_MOUNTED, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class CoreLimit:
    """So many cores' worth of time in every period, for all processes of the group together."""

    num_cores: float
    period_s: float


def core_limit(mounted: Path = _MOUNTED, membership: Path = _MEMBERSHIP) -> CoreLimit | None:
    """The tightest limit of this process's group and those above it; None where nothing there limits it."""
    limits = [limit for group in groups_of("cpu", mounted, membership) if (limit := _limit_of(group))]
    return min(limits, key=lambda limit: limit.num_cores, default=None)


def groups_of(controller: str, mounted: Path = _MOUNTED, membership: Path = _MEMBERSHIP) -> Iterator[Path]:
    """Folders of the process's group and those above it, in every hierarchy that may hold a controller."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        hierarchy = mounted / controllers if controllers else mounted
        path = PurePosixPath(name.lstrip("/"))
        for group in (path, *path.parents):
            yield hierarchy / group


def _limit_of(group: Path) -> CoreLimit | None:
    try:
        if (group / "cpu.max").exists():
            quota, period_us = (group / "cpu.max").read_text().split()
        else:
            quota, period_us = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        if quota == "max" or int(quota) <= 0:
            return None
        return CoreLimit(int(quota) / int(period_us), int(period_us) / _US_PER_S)
    except (OSError, ValueError):
        return None  # no such controller here
