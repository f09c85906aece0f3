"""How fast this machine's processor is just now: on a shared host it changes by half from one second to the next.

Neighbours on the same physical core or memory bus slow every operator down alike, without any time being stolen
that a kernel would count. A small piece of fixed work, timed right before and after an operator, slows down with
it; measured against that work an operator repeats better than in seconds (`benchmarks/repeats.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.measure import Timing

_MATMUL_SIZE, _NUM_MATMULS = 192, 20
_SWEPT_ELEMENTS, _NUM_SWEEPS = 2**20, 6


@dataclass(frozen=True)
class Paced:
    """Timings of one probe, and what the fixed work took beside them, processor seconds (0: it was not timed)."""

    timings: tuple[Timing, ...]
    pace_s: float


@dataclass
class PaceMaker:
    """The fixed work: products that stay in the caches and sweeps that do not, about alike.

    Processor time is taken, not elapsed time: standing still under a quota is no slowness of the processor.
    """

    _matrix: Tensor = field(default_factory=lambda: torch.full((_MATMUL_SIZE, _MATMUL_SIZE), 1 / _MATMUL_SIZE))
    _swept: Tensor = field(default_factory=lambda: torch.zeros(_SWEPT_ELEMENTS))

    def seconds(self) -> float:
        """Processor seconds of the work just now: the geometric mean of its two halves."""
        begun_s = time.thread_time()
        for _ in range(_NUM_MATMULS):
            torch.mm(self._matrix, self._matrix)
        multiplied_s = time.thread_time()
        for _ in range(_NUM_SWEEPS):
            self._swept.add_(1)
        return math.sqrt((multiplied_s - begun_s) * (time.thread_time() - multiplied_s))

    def beside(self, probe: Callable[[], tuple[Timing, ...]]) -> Paced:
        """A probe between two of them."""
        before_s = self.seconds()
        timings = probe()
        return Paced(timings, (before_s + self.seconds()) / 2)


def at_mean_pace(taken: Sequence[Paced]) -> list[tuple[Timing, ...]]:
    """What the probes would have taken at the mean pace of them all."""
    mean_s = float(np.mean([paced.pace_s for paced in taken])) if taken else 0.0
    return [
        tuple(_scaled(timing, mean_s / paced.pace_s) if paced.pace_s else timing for timing in paced.timings)
        for paced in taken
    ]


def _scaled(timing: Timing, factor: float) -> Timing:
    return replace(timing, median_s=timing.median_s * factor, spread_s=timing.spread_s * factor)
