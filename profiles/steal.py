"""Processor time that a hypervisor gave to other machines while something was timed here."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TOLERATED_SHARE = 0.02
_STEAL_FIELD = 8  # of the first line of /proc/stat, its label counted


@dataclass(frozen=True)
class StealWatch:
    """A moment, and the processor seconds stolen from this machine until then."""

    begun_s: float
    stolen_s: float

    @staticmethod
    def begin() -> StealWatch:
        """Now."""
        return StealWatch(time.monotonic(), _stolen_s())

    def share(self) -> float:
        """Of the time of all this machine's cores since then, the share that was stolen; 0 where nobody counts it."""
        elapsed_s = (time.monotonic() - self.begun_s) * (os.cpu_count() or 1)
        return (_stolen_s() - self.stolen_s) / elapsed_s if elapsed_s > 0 else 0.0


def _stolen_s(path: Path = Path("/proc/stat")) -> float:
    try:
        first = path.read_text().split("\n", 1)[0].split()
        return int(first[_STEAL_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0  # not Linux, or a kernel that does not say
