"""A device's memory shared out: what mini-batches take is measured by training a few, the rest is for rows."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from planner.minibatch.room import BatchNeeds, share_out
from runtime.mini_batch.executor import Stages
from runtime.mini_batch.loader_stages import LoaderStages

_MEASURED_BATCHES = 3
# int64 that `profiles.kernels.sampling_gpu.sample` has alive of each vertex and edge at most, sorting included.
_MAKING_BYTES = 16 * 8


class Memory(Protocol):
    """A device's memory, counted."""

    def free_bytes(self) -> int:
        """Nobody's; memory that this process holds and does not use counts as free."""

    def begin(self) -> None:
        """From here on the peak is looked for."""

    def peak_bytes(self) -> int:
        """The most used at once since `begin`, beside what was used then."""


class CudaMemory:
    """As torch's allocator counts it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before_bytes = 0

    def free_bytes(self) -> int:
        """As `Memory`."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self._device)[0]

    def begin(self) -> None:
        """As `Memory`."""
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before_bytes = torch.cuda.memory_allocated(self._device)

    def peak_bytes(self) -> int:
        """As `Memory`."""
        return torch.cuda.max_memory_allocated(self._device) - self._before_bytes


def fill_device(stages: LoaderStages, memory: Memory, *, limit_bytes: int | None = None) -> tuple[int, int]:
    """Gives stages their source for the GPU's batches, keeping as much on the device as fits beside the batches.

    A job that takes all neighbours of a vertex gets none, for the GPU's kernels do not.

    Args:
        limit_bytes: the most that batches and what is kept may take.
    Returns:
        How many batches may wait on the device, and the bytes kept there.
    Raises:
        UserError: as `share_out` does.
    """
    with stages.undone():
        free_bytes = memory.free_bytes()
        needs = measure_needs(stages, memory, num_distinct=len(stages.loader))
    room = share_out(free_bytes, needs, limit_bytes=limit_bytes)
    if min(stages.loader.num_neighbors) < 1:
        return room.num_slots, 0
    from runtime.sampling.device import source_within  # needs Triton

    kept = source_within(stages.loader, stages.device, room.row_bytes)
    stages.gpu_source = kept.source
    return room.num_slots, kept.num_bytes


def measure_needs(stages: Stages, memory: Memory, *, num_distinct: int) -> BatchNeeds:
    """Trains a few batches of the CPU's, one after another, and takes the most that any needed.

    Args:
        num_distinct: batches there are; where these are fewer, some come again.
    """
    memory.begin()
    needs = [_needs_of(stages, index % num_distinct) for index in range(_MEASURED_BATCHES)]
    batch_bytes = max(each.batch_bytes for each in needs)
    return BatchNeeds(batch_bytes, max(memory.peak_bytes(), *(each.step_bytes for each in needs)))


def _needs_of(stages: Stages, index: int) -> BatchNeeds:
    """A function of its own, so that a batch is gone before the next one comes."""
    batch = stages.transfer(stages.cpu_batch(0, index))
    stages.train(batch)
    batch_bytes = bytes_of(batch)
    return BatchNeeds(batch_bytes, batch_bytes + _MAKING_BYTES * (batch.num_nodes + batch.num_edges))


def bytes_of(batch: Data) -> int:
    """Of its tensors."""
    return sum(value.nbytes for value in batch.to_dict().values() if isinstance(value, Tensor))
