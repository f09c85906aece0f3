"""Where a batch is made: who samples it, and into which memory the rows of its attributes are picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.loader.utils import index_select

from gnnplan.profiles.kernels.csc import Csc
from gnnplan.profiles.kernels.gather import can_gather, copy_rows
from gnnplan.profiles.kernels.sampling import NeighbourSampler, Sample
from gnnplan.profiles.kernels.sampling_variants import Variant, VariantSampler
from gnnplan.runtime.sampling.blocks import BatchBlocks


class Source(Protocol):
    """Makes the parts of a batch; any thread may ask.

    Args:
        is_resident: it reads nothing but a device's own memory.
    """

    is_resident: bool

    def sample(self, seeds: Tensor, fan_outs: Sequence[int], keys: Sequence[int]) -> Sample:
        """The batch of `seeds` int64 [B] in host memory, with the draws that `keys` stand for."""

    def rows(self, value: Any, dim: int, index: Tensor) -> Any:
        """What `value` holds at `index` along dimension `dim`."""


class HostSource:
    """Batches in host memory, made by the CPU.

    Args:
        graph: sampled from.
        blocks: memory for what is returned.
        alone: only one thread makes batches, so torch may use all cores to pick rows.
        variant: how neighbours are drawn; None: without replacement, all alike.
    """

    is_resident = False

    def __init__(self, graph: Csc, blocks: BatchBlocks, *, alone: bool, variant: Variant | None = None) -> None:
        self._graph, self._empty, self._alone, self._variant = graph, blocks.empty, alone, variant
        # Taken by a thread for one batch and put back: as many as there ever were threads at once.
        self._samplers: list[NeighbourSampler | VariantSampler] = []

    def sample(self, seeds: Tensor, fan_outs: Sequence[int], keys: Sequence[int]) -> Sample:
        """As `Source`."""
        try:
            sampler = self._samplers.pop()
        except IndexError:
            sampler = self._new_sampler()
        try:
            return sampler.sample(seeds.numpy(), fan_outs, keys, self._empty)
        finally:
            self._samplers.append(sampler)

    def _new_sampler(self) -> NeighbourSampler | VariantSampler:
        is_plain = self._variant is None or self._variant.is_plain
        return NeighbourSampler(self._graph) if is_plain else VariantSampler(self._graph, self._variant or Variant())

    def rows(self, value: Any, dim: int, index: Tensor) -> Any:
        """As `Source`."""
        if dim != 0 or not isinstance(value, Tensor) or not can_gather(value):
            return index_select(value, index.to(value.device) if isinstance(value, Tensor) else index, dim)
        out = self._empty((len(index), *value.shape[1:]), value.dtype)
        if self._alone:
            return torch.index_select(value, 0, index, out=out)
        if len(index) and int(index.max()) >= len(value):  # the loop below looks at no bounds
            raise IndexError(f"row {int(index.max())} of {len(value)}")
        return copy_rows(value, index, out)
