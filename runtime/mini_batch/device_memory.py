"""A device's memory shared out: what mini-batches take is measured by training a few, the rest is for rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnnplan.planner.minibatch.room import BatchNeeds, share_out
from gnnplan.profiles.errors import NoPlanFitsError
from gnnplan.runtime.mini_batch.executor import Stages, coming_again
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages

_MEASURED_BATCHES = 3
# int64 that `gnnplan.profiles.kernels.sampling_gpu.sample` has alive of each vertex and edge at most, sorting included.
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


@dataclass(frozen=True)
class Filled:
    """How a device's memory is used.

    Args:
        num_slots: batches that may wait there.
        row_bytes: that rows of the graph and the features may take.
        step_bytes: that a batch in work takes.
        kept_bytes: that rows do take.
    """

    num_slots: int
    row_bytes: int = 0
    step_bytes: int = 0
    kept_bytes: int = 0


def fill_device(stages: LoaderStages, memory: Memory, *, limit_bytes: int | None = None) -> Filled:
    """Gives stages their source for the GPU's batches, keeping as much on the device as fits beside the batches.

    Fan-outs and repeated seeds that the GPU's kernels do not take leave all batches to the CPU: there is none then.

    Args:
        limit_bytes: the most that batches and what is kept may take.
    Raises:
        NoPlanFitsError, UserError: as `share_out` does; the first one also where not even one step can be taken.
    """
    with stages.undone():
        free_bytes = memory.free_bytes()
        try:
            needs = measure_needs(stages, memory, num_distinct=len(stages.loader))
        except torch.OutOfMemoryError as error:
            raise NoPlanFitsError(
                f"batches need more than {memory.peak_bytes()} bytes of the device's memory, {free_bytes} are free; "
                f"make batch_size or fan_outs smaller"
            ) from error
    num_pools = 2 if _is_sampled_there(stages) else 1  # a stream each
    room = share_out(free_bytes, needs, limit_bytes=limit_bytes, num_pools=num_pools)
    kept_bytes = keep_rows(stages, room.row_bytes)
    return Filled(room.num_slots, room.row_bytes, needs.step_bytes, kept_bytes)


def keep_rows(stages: LoaderStages, row_bytes: int) -> int:
    """Gives stages their source for the GPU's batches, which keeps at most so many bytes of rows; returns how many."""
    if not _is_sampled_there(stages):
        return 0
    from gnnplan.runtime.sampling.device import source_within  # needs Triton

    kept = source_within(stages.loader, stages.device, row_bytes)
    stages.gpu_source = kept.source
    return kept.num_bytes


def _is_sampled_there(stages: LoaderStages) -> bool:
    from gnnplan.runtime.sampling.device import can_sample  # needs Triton

    return can_sample(stages.loader.num_neighbors) and not stages.loader.repeats_seeds


def measure_needs(stages: Stages, memory: Memory, *, num_distinct: int) -> BatchNeeds:
    """Trains a few batches of the CPU's, one after another, and takes the most that any needed.

    Args:
        num_distinct: batches there are; where these are fewer, some come again.
    """
    memory.begin()
    again = coming_again(stages, num_distinct)
    needs = [_needs_of(again, index) for index in range(_MEASURED_BATCHES)]
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
