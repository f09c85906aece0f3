"""Processor time that other programs took on this machine while something of ours was timed here."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOLERATED_LOAD = 0.05
_BUSY_FIELDS = (1, 2, 3, 6, 7)  # of the first line of /proc/stat: user, nice, system, irq, softirq


@dataclass(frozen=True)
class MachineLoad:
    """What one worker saw of its machine over a while.

    Args:
        machine: equal for workers of one machine, whatever hosts are emulated on it.
        elapsed_s: on the clock.
        busy_s: processor seconds used by anybody on the machine (0: it does not say).
        own_s: processor seconds used by this worker.
        num_cores: of the machine.
    """

    machine: str
    elapsed_s: float
    busy_s: float
    own_s: float
    num_cores: int

    @property
    def tick_s(self) -> float:
        """Busy time is counted in these, a core at a time."""
        return 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class LoadWatch:
    """A moment, and the processor seconds used until then."""

    begun_s: float
    busy_s: float
    own_s: float

    @staticmethod
    def begin() -> LoadWatch:
        """Now."""
        return LoadWatch(time.monotonic(), _busy_s(), time.process_time())

    def end(self) -> MachineLoad:
        """From then until now."""
        return MachineLoad(
            machine=_boot_id(),
            elapsed_s=time.monotonic() - self.begun_s,
            busy_s=_busy_s() - self.busy_s,
            own_s=time.process_time() - self.own_s,
            num_cores=os.cpu_count() or 1,
        )


def others_share(loads: Sequence[MachineLoad]) -> float:
    """Of the processor time of a machine, what others than these workers used: of the machine where it is largest."""
    by_machine: dict[str, list[MachineLoad]] = defaultdict(list)
    for load in loads:
        by_machine[load.machine].append(load)
    return max((_of_one_machine(its) for its in by_machine.values()), default=0.0)


def others_s(load: MachineLoad, own_s: float) -> float:
    """Processor seconds that others used, give or take a tick a core; 0 where the machine does not say.

    Args:
        own_s: of all workers of the machine together.
    """
    return load.busy_s - own_s if load.busy_s else 0.0


def _of_one_machine(loads: Sequence[MachineLoad]) -> float:
    longest = max(loads, key=lambda load: load.elapsed_s)
    all_s = longest.elapsed_s * longest.num_cores
    sure_s = others_s(longest, sum(load.own_s for load in loads)) - longest.num_cores * longest.tick_s
    return min(max(sure_s / all_s, 0.0), 1.0) if all_s > 0 else 0.0


def _busy_s(path: Path = Path("/proc/stat")) -> float:
    try:
        first = path.read_text().split("\n", 1)[0].split()
        return sum(int(first[field]) for field in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0  # not Linux, or a kernel that does not say


def _boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return os.uname().nodename
