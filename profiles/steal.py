"""Processor time that a hypervisor gave to other machines while something was timed here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

TOLERATED_SHARE = 0.02
_STEAL_FIELD = 8  # of the first line of /proc/stat, its label counted
_MAX_CALLS = 4
_PAUSE_S = 0.5  # then twice as long after every call; what disturbs lasts for seconds to minutes
_T = TypeVar("_T")


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


@dataclass
class Patience:
    """Calls a probe again while time is stolen from it, and keeps what was disturbed least.

    Args:
        largest: of one share per worker, the largest; all workers must make the same calls.
        on_done: told of every probe that is done with.
        num_left: calls that may be made again, of all probes; then what comes is taken.
    """

    largest: Callable[[float], float]
    on_done: Callable[[], None] = lambda: None
    num_left: int = 60

    def __call__(self, probe: Callable[[], _T]) -> _T:
        """What the probe returns."""
        taken, least = self._call(probe)
        for number in range(_MAX_CALLS - 1):
            if least <= TOLERATED_SHARE or self.num_left == 0:
                break
            self.num_left -= 1
            time.sleep(_PAUSE_S * 2**number)
            again, share = self._call(probe)
            if share < least:
                taken, least = again, share
        self.on_done()
        return taken

    def _call(self, probe: Callable[[], _T]) -> tuple[_T, float]:
        watch = StealWatch.begin()
        return probe(), self.largest(watch.share())


def _stolen_s(path: Path = Path("/proc/stat")) -> float:
    try:
        first = path.read_text().split("\n", 1)[0].split()
        return int(first[_STEAL_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0  # not Linux, or a kernel that does not say
