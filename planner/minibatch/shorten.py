"""Short epochs to plan long ones on: what is left out repeats itself, so more batches take no longer to plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.minibatch.bound import split_bounds
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.stages import StageTimes

ENOUGH = 400  # batches that are played: the epoch's begin and end are small beside what lies between
_MOST = 1000  # where so many are needed to hold two rounds of the CPU's threads


@dataclass(frozen=True)
class ShortEpoch:
    """An epoch without some of its batches.

    Args:
        num_all: batches of the epoch itself.
        num_cut, num_gpu_cut: batches left out, and those of them that the GPU makes.
    """

    num_all: int
    num_cut: int = 0
    num_gpu_cut: int = 0

    @property
    def num_batches(self) -> int:
        """That are left."""
        return self.num_all - self.num_cut

    def split_of_all(self, num_gpu: int) -> int:
        """How many batches the GPU makes of the epoch itself, where it makes so many of these; none and all stay so."""
        if num_gpu in (0, self.num_batches):
            return self.num_all if num_gpu else 0
        return num_gpu + self.num_gpu_cut

    def split_of_these(self, num_gpu: int) -> int:
        """The other way round, as far as there is such a split."""
        if num_gpu in (0, self.num_all):
            return self.num_batches if num_gpu else 0
        return min(max(num_gpu - self.num_gpu_cut, 1), self.num_batches - 1)

    def made_of_all(self, buffers: Buffers, num_gpu_made: int) -> int:
        """As `split_of_all`, also where the buffers leave the split open."""
        if buffers.num_gpu_batches is None:
            return round(num_gpu_made * self.num_all / self.num_batches)
        return self.split_of_all(num_gpu_made)

    def buffers_of_all(self, buffers: Buffers) -> Buffers:
        """These for the epoch itself."""
        if buffers.num_gpu_batches is None:
            return buffers
        return replace(buffers, num_gpu_batches=self.split_of_all(buffers.num_gpu_batches))

    def buffers_of_these(self, buffers: Buffers) -> Buffers:
        """The epoch's own for these."""
        if buffers.num_gpu_batches is None:
            return buffers
        return replace(buffers, num_gpu_batches=self.split_of_these(buffers.num_gpu_batches))


def shortened(times: StageTimes, num_batches: int, num_cpu_threads: int, enough: int | None = None) -> ShortEpoch:
    """The epoch with some hundreds of batches at most; one that has no more is left whole.

    Whole rounds of the CPU's threads are left out, each with the batches that the GPU makes meanwhile where the bound
    is least: those that fill no round stay, and who waits for whom stays the same.

    Args:
        enough: batches that are kept at least; None: `ENOUGH`.
    """
    enough = ENOUGH if enough is None else enough
    if num_batches <= enough:
        return ShortEpoch(num_batches)
    num_gpu = int(split_bounds(times, num_batches, np.arange(num_batches + 1), num_cpu_threads).argmin())
    num_cpu = num_batches - num_gpu
    if not num_cpu:
        return ShortEpoch(num_batches, num_batches - enough, num_batches - enough)
    round_batches = num_cpu_threads * num_batches / num_cpu
    kept = min(num_batches, max(enough, min(int(2 * round_batches), _MOST)))
    num_cpu_cut = int((num_batches - kept) * num_cpu / num_batches)
    if round_batches > _MOST:  # the CPU's part is too small for its rounds to matter
        return ShortEpoch(num_batches, num_batches - kept, num_batches - kept - num_cpu_cut)
    num_cpu_cut -= num_cpu_cut % num_cpu_threads
    num_gpu_cut = round(num_cpu_cut * num_gpu / num_cpu)
    return ShortEpoch(num_batches, num_cpu_cut + num_gpu_cut, num_gpu_cut)
