"""By how much the clocks of workers differ: every machine counts its monotonic seconds from its own start."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device

_TRIPS = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def to_first_clock_s() -> float:
    """Seconds to add to this worker's `time.monotonic` for that of rank 0; every worker must call it.

    Workers of one machine have one clock. Of every other machine one worker asks rank 0 for its time, several times.
    The answer of the shortest trip counts, taken to be given halfway (Cristian, "Probabilistic clock synchronization",
    1989). So it is off by half of that trip at most. Clocks drift by up to some 50 microseconds a second: who compares
    times over minutes asks again.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return 0.0
    boots = of_all_workers(torch.tensor(boot_number(), device=group_device())).tolist()
    rank, found_s = dist.get_rank(), 0.0
    for asking in [boots.index(boot) for boot in dict.fromkeys(boots) if boot != boots[0]]:
        if rank == 0:
            _answer(asking)
        elif rank == asking:
            found_s = _asked()
    every_s = of_all_workers(torch.tensor(found_s, dtype=torch.float64, device=group_device()))
    return float(every_s[boots.index(boots[rank])])


@dataclass(frozen=True)
class ClockReading:
    """What a worker's clock said, and what was to be added to it for that of rank 0."""

    at_s: float
    to_first_s: float

    @staticmethod
    def now() -> ClockReading:
        """Every worker must call it."""
        to_first_s = to_first_clock_s()
        return ClockReading(time.monotonic(), to_first_s)


def on_first_clock(begin: ClockReading, end: ClockReading) -> Callable[[float], float]:
    """What turns this worker's seconds into those of rank 0's clock; clocks drift evenly between two readings."""
    lasted_s = end.at_s - begin.at_s
    drift = (end.to_first_s - begin.to_first_s) / lasted_s if lasted_s > 0 else 0.0
    return lambda at_s: at_s + begin.to_first_s + drift * (at_s - begin.at_s)


def of_all_workers(own: torch.Tensor) -> torch.Tensor:
    """Every worker's tensor of one shape by rank, [W, ...] on the CPU; every worker must call it."""
    every = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    return torch.stack(every).cpu()


def _asked() -> float:
    answer = torch.zeros(1, dtype=torch.float64, device=group_device())
    trips = []
    for _ in range(_TRIPS):
        begun_s = time.monotonic()
        dist.send(answer, 0)
        dist.recv(answer, 0)
        theirs_s = float(answer)
        trips.append((begun_s, theirs_s, time.monotonic()))
    return offset_s(trips)


def _answer(asking: int) -> None:
    asked = torch.zeros(1, dtype=torch.float64, device=group_device())
    for _ in range(_TRIPS):
        dist.recv(asked, asking)
        dist.send(torch.tensor([time.monotonic()], dtype=torch.float64, device=group_device()), asking)


def offset_s(trips: Sequence[tuple[float, float, float]]) -> float:
    """Another clock less this one, by trips of (begun here, answered there, ended here)."""
    begun_s, theirs_s, ended_s = min(trips, key=lambda trip: trip[2] - trip[0])
    return theirs_s - (begun_s + ended_s) / 2


@cache
def boot_number() -> int:
    """The same for all processes since a machine started, and no other's; by the machine's address where none says."""
    name = _BOOT.read_text().strip() if _BOOT.exists() else str(uuid.getnode())
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
