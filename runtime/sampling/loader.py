"""PyG's `NeighborLoader` for one homogeneous graph, with threads that share the graph instead of processes."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnnplan.profiles.kernels.counter import chained_key
from gnnplan.profiles.kernels.csc import Csc, csc_from_edges
from gnnplan.runtime.sampling.arguments import (
    check_at_least,
    check_edges,
    check_fan_outs,
    check_others,
    check_seconds,
    seed_vertices,
)
from gnnplan.runtime.sampling.batch import BatchMaker
from gnnplan.runtime.sampling.blocks import BatchBlocks
from gnnplan.runtime.sampling.pipeline import OrderedPipeline
from gnnplan.runtime.sampling.source import HostSource, Source


class NeighborLoader:
    """Mini-batches by neighbour sampling without replacement, in directional subgraphs.

    In place of `torch_geometric.loader.NeighborLoader`: batches have the same attributes. They are
    the same for every `num_workers`; each iteration is the next epoch, with other draws and, where
    shuffled, another order.

    Args:
        data: one homogeneous graph with `edge_index`; node-level and edge-level attributes are sliced.
        num_neighbors: fan-out a hop, -1 for all neighbours.
        input_nodes: the seeds: vertex ids, a mask over the vertices, or None for all of them.
        batch_size: seeds a batch.
        shuffle: draw the order of the seeds anew every epoch.
        drop_last: leave out the last batch where it is smaller than the others.
        num_workers: sampling threads; 0 samples in the calling thread, when a batch is asked for.
        prefetch_factor: batches a thread may be ahead of the consumer.
        seed: of all draws and orders.
        pin_memory: batches lie in page-locked memory; without CUDA it is ignored, as torch does.
        timeout: seconds that an iteration waits for a batch of its threads at most; 0: as long as one is alive.
        csc: the graph's edges by target, where they are there already; `data` then needs none.
        others: keywords that PyG's loader has and this one has not, which are refused where they ask for anything.
    Raises:
        UserError: an argument that cannot be meant, in one line.
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | Sequence[int] | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int = 0,
        prefetch_factor: int = 2,
        seed: int = 0,
        pin_memory: bool = False,
        timeout: float = 0,
        csc: Csc | None = None,
        **others: object,
    ) -> None:
        check_others(others)
        self.data = data
        self.num_neighbors = check_fan_outs(num_neighbors)
        self.batch_size = check_at_least("batch_size", batch_size, 1)
        self.num_workers = check_at_least("num_workers", num_workers, 0)
        self.prefetch_factor = check_at_least("prefetch_factor", prefetch_factor, 1)
        self.shuffle, self.drop_last, self.seed = shuffle, drop_last, seed
        self.timeout = check_seconds("timeout", timeout)
        self._max_in_flight = max(1, num_workers * prefetch_factor)
        self.graph = csc_from_edges(check_edges(data).numpy(), data.num_nodes) if csc is None else csc
        blocks = BatchBlocks(self._max_in_flight + 2, pin_memory=pin_memory and torch.cuda.is_available())
        self._source = HostSource(self.graph, blocks, alone=num_workers == 0)
        self._maker = BatchMaker(data, self.num_neighbors, seed=seed)
        self._seeds, self._ids = seed_vertices(input_nodes, data.num_nodes)
        self._last_order = -1, self._seeds
        self._epoch = 0

    def __len__(self) -> int:
        """Batches an epoch."""
        num_seeds = len(self._seeds)
        return num_seeds // self.batch_size if self.drop_last else -(-num_seeds // self.batch_size)

    @property
    def repeats_seeds(self) -> bool:
        """Whether a vertex is a seed more than once in an epoch, and so may be in a batch."""
        return len(self._seeds.unique()) < len(self._seeds)

    def with_seeds(self, input_nodes: Tensor | Sequence[int] | None) -> NeighborLoader:
        """A loader of all of other seeds, in order, on the graph as it was prepared for this one.

        It takes little memory of its own: a thread makes a batch only when its last one was taken.
        """
        other = copy.copy(self)
        other._seeds, other._ids = seed_vertices(input_nodes, self.data.num_nodes)
        other.shuffle = other.drop_last = False
        other._last_order, other._epoch = (-1, other._seeds), 0
        other.prefetch_factor, other._max_in_flight = 1, max(1, self.num_workers)
        return other

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, counted from 0."""
        self._epoch = check_at_least("epoch", epoch, 0)

    def __iter__(self) -> Iterator[Data]:
        """One epoch, in order; its `close` ends it early, as does dropping it.

        Raises:
            RunFailedError: a sampling thread failed (the cause is attached), or no batch came within the timeout.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        make = partial(self.batch, epoch)
        if self.num_workers == 0:
            return (make(index) for index in range(len(self)))
        return OrderedPipeline(
            make,
            len(self),
            num_threads=self.num_workers,
            max_in_flight=self._max_in_flight,
            timeout_s=self.timeout or math.inf,
        )

    def batch(self, epoch: int, index: int, source: Source | None = None) -> Data:
        """Batch number `index` of an epoch, whatever was made before; any thread may ask.

        Args:
            source: makes it; None: the CPU. The batch is the same, in other memory.
        """
        at = slice(index * self.batch_size, (index + 1) * self.batch_size)
        chosen = self._order(epoch)[at]
        return self._maker.make(source or self._source, self._seeds[chosen], self._ids[chosen], epoch, index)

    def sliced(self) -> dict[str, Any]:
        """The graph's attributes whose rows a batch holds, by name."""
        return self._maker.sliced()

    def row_bytes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of each of these by name, bytes a vertex; and of those with an entry an edge, bytes an edge."""
        return self._maker.row_bytes()

    def _order(self, epoch: int) -> Tensor:
        """int64 [S], the positions of the seeds in the order of an epoch."""
        last, order = self._last_order
        if last != epoch:
            order = self._drawn_order(epoch)
            self._last_order = epoch, order  # one assignment: threads see an epoch with its own order
        return order

    def _drawn_order(self, epoch: int) -> Tensor:
        num_seeds = len(self._seeds)
        if not self.shuffle:
            return torch.arange(num_seeds)
        generator = torch.Generator().manual_seed(chained_key(self.seed, epoch) >> 1)
        return torch.randperm(num_seeds, generator=generator)
