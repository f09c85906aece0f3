"""PyG's `NeighborLoader` for one homogeneous graph, with threads that share the graph instead of processes."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import Data

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.csc import Csc, csc_from_edges
from gnnplan.runtime.sampling.arguments import (
    check_at_least,
    check_edges,
    check_fan_outs,
    check_seconds,
    seed_vertices,
    seeds_beside,
    variant_of,
)
from gnnplan.runtime.sampling.batch import BatchMaker
from gnnplan.runtime.sampling.blocks import BatchBlocks
from gnnplan.runtime.sampling.epochs import Drawn, Epochs
from gnnplan.runtime.sampling.keywords import check_others
from gnnplan.runtime.sampling.pipeline import OrderedPipeline
from gnnplan.runtime.sampling.source import HostSource, Source


class NeighborLoader(DataLoader):
    """Mini-batches by neighbour sampling.

    In place of `torch_geometric.loader.NeighborLoader`: it takes that one's keywords (docs/loader.md lists them), and
    batches have the same attributes. They are the same for every `num_workers`. Each iteration is the next epoch, with
    other draws and, where shuffled, another order. What is added to `loader.data` or deleted there counts for batches
    to come.

    Args:
        data: one homogeneous graph with `edge_index`; node-level and edge-level attributes are sliced.
        num_neighbors: fan-out a hop, -1 for all neighbours.
        input_nodes: the seeds: vertex ids, a mask over the vertices, or None for all of them.
        input_id: int64 [S], names of the seeds, which batches carry; None: their positions, or of a mask the vertices.
        replace: draw neighbours with replacement.
        subgraph_type: `directional`, `bidirectional` or `induced`.
        directed: False is `induced`.
        disjoint: every seed has a tree of its own; `batch.batch` says whose each vertex is.
        weight_attr: the attribute [E] in proportion to which neighbours are drawn.
        transform: called with every batch; what it returns comes in its place.
        filter_per_worker: call `transform` in the threads.
        batch_size: seeds a batch.
        shuffle: draw the order of the seeds anew every epoch.
        sampler, batch_sampler: choose positions of seeds, as torch's `DataLoader` takes them.
        drop_last: leave out the last batch where it is smaller than the others.
        num_workers: sampling threads; 0 samples in the calling thread, when a batch is asked for.
        prefetch_factor: batches a thread may be ahead of the consumer (None: 2).
        worker_init_fn: called in each thread with its number.
        generator: of draws and orders (None: torch's own, which `torch.manual_seed` sets).
        seed: of all draws and orders in place of a generator: every epoch is then a pure function of it.
        pin_memory: batches lie in page-locked memory; without CUDA it is ignored, as torch does.
        timeout: seconds that an iteration waits for a batch of its threads at most; 0: as long as one is alive.
        csc: the graph's edges by target, where they are there already; `data` then needs none.
        others: keywords of PyG's that change nothing; those that ask for what is not there are refused.
    Raises:
        UserError: an argument that cannot be meant, in one line.
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | Sequence[int] | None = None,
        *,
        input_id: Tensor | None = None,
        replace: bool = False,
        subgraph_type: object = "directional",
        directed: bool = True,
        disjoint: bool = False,
        weight_attr: str | None = None,
        transform: Callable[[Data], Any] | None = None,
        filter_per_worker: bool | None = None,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        drop_last: bool = False,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        generator: torch.Generator | None = None,
        seed: int | None = None,
        pin_memory: bool = False,
        timeout: float = 0,
        csc: Csc | None = None,
        **others: object,
    ) -> None:
        check_others(others, _OWN)
        fan_outs = check_fan_outs(num_neighbors)
        num_workers = check_at_least("num_workers", num_workers, 0)
        graph = csc_from_edges(check_edges(data).numpy(), data.num_nodes) if csc is None else csc
        self._seeds, self._ids = seeds_beside(seed_vertices(input_nodes, data.num_nodes), input_id)
        try:
            super().__init__(
                range(len(self._seeds)),  # type: ignore[arg-type]
                batch_size=check_at_least("batch_size", batch_size, 1),
                shuffle=shuffle,
                sampler=sampler,
                batch_sampler=batch_sampler,  # type: ignore[arg-type]
                drop_last=drop_last,
                generator=generator,
                pin_memory=pin_memory,
            )
        except ValueError as error:
            raise UserError(f"NeighborLoader: {error}") from None
        self.data, self.graph, self.num_neighbors = data, graph, fan_outs
        self.num_workers, self.shuffle = num_workers, bool(shuffle)
        self.prefetch_factor = check_at_least("prefetch_factor", 2 if prefetch_factor is None else prefetch_factor, 1)
        self.timeout = check_seconds("timeout", timeout)
        self.transform, self.filter_per_worker, self.worker_init_fn = transform, filter_per_worker, worker_init_fn
        self._max_in_flight = max(1, num_workers * self.prefetch_factor)
        self._variant = variant_of(
            data,
            graph,
            replace=replace,
            disjoint=disjoint,
            subgraph_type=subgraph_type if directed else "induced",
            weight_attr=weight_attr,
        )
        blocks = BatchBlocks(self._max_in_flight + 2, pin_memory=pin_memory and torch.cuda.is_available())
        self._source = HostSource(graph, blocks, alone=num_workers == 0, variant=self._variant)
        self._maker = BatchMaker(data, fan_outs, seed=seed or 0)
        self._seed, self._chooses = seed, sampler is None and batch_sampler is None
        self._epochs, self._epoch = self._new_epochs(), 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._seeds)} seeds, {len(self)} batches, num_neighbors={self.num_neighbors})"
        )

    def __call__(self, index: Tensor | Sequence[int]) -> Any:
        """The batch of the seeds at some positions; each call is an epoch of its own."""
        drawn, self._epoch = self._epochs.begin(self._epoch), self._epoch + 1
        return self._finished(self._made(drawn, 0, None, torch.as_tensor(index, dtype=torch.int64).view(-1)))

    def _new_epochs(self) -> Epochs:
        """Of this loader's seeds; whatever torch did not put there itself chooses the positions."""
        ours = self._chooses and self.batch_size is not None
        return Epochs(
            len(self._seeds),
            shuffle=self.shuffle,
            seed=self._seed,
            generator=self.generator,
            batches=None if ours else self.batch_sampler,
        )

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
        size = self.batch_size or 1
        plain: DataLoader = DataLoader(range(len(other._seeds)), batch_size=size)  # type: ignore[arg-type]
        names = ("dataset", "batch_size", "sampler", "batch_sampler", "drop_last")
        other.__dict__.update({name: plain.__dict__[name] for name in names})  # torch lets nobody set them
        other.shuffle, other._epoch, other._chooses = False, 0, True
        other.prefetch_factor, other._max_in_flight = 1, max(1, self.num_workers)
        other._epochs = other._new_epochs()
        return other

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, counted from 0; one that was begun before comes again."""
        self._epoch = check_at_least("epoch", epoch, 0)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """One epoch, in order; its `close` ends it early, as does dropping it.

        Raises:
            RunFailedError: a sampling thread failed (the cause is attached), or no batch came within the timeout.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        drawn, num_batches = self._epochs.begin(epoch), len(self)
        make = partial(self._made, drawn)
        in_threads = bool(self.filter_per_worker) and self.num_workers > 0
        if self.transform is not None and in_threads:
            make = partial(_then, make, self._finished)
        if self.num_workers == 0:
            batches: Generator[Any, None, None] | OrderedPipeline[Any] = (make(index) for index in range(num_batches))
        else:
            batches = OrderedPipeline(
                make,
                num_batches,
                num_threads=self.num_workers,
                max_in_flight=self._max_in_flight,
                timeout_s=self.timeout or math.inf,
                begin=self.worker_init_fn,
            )
        return batches if self.transform is None or in_threads else _each(batches, self._finished)

    def batch(self, epoch: int, index: int, source: Source | None = None) -> Any:
        """Batch number `index` of an epoch, whatever was made before; any thread may ask.

        Args:
            source: makes it; None: the CPU. The batch is the same, in other memory.
        """
        if source is not None and not self._variant.is_plain:
            raise UserError("a device draws neighbours without replacement or weights, in directional subgraphs")
        return self._finished(self._made(self._epochs.of(epoch), index, source))

    def sliced(self) -> dict[str, Any]:
        """The graph's attributes whose rows a batch holds, by name."""
        return self._maker_now().sliced()

    def row_bytes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of each of these by name, bytes a vertex; and of those with an entry an edge, bytes an edge."""
        return self._maker_now().row_bytes()

    def _made(self, drawn: Drawn, index: int, source: Source | None = None, positions: Tensor | None = None) -> Data:
        """A batch before it is transformed; `positions` in place of the epoch's own."""
        chosen = drawn.positions(index, self.batch_size) if positions is None else positions
        seeds, ids = self._seeds[chosen], self._ids[chosen]
        return self._maker_now().make(source or self._source, seeds, ids, drawn.number, index, drawn.seed)

    def _maker_now(self) -> BatchMaker:
        """For the attributes that the graph has by now."""
        if not self._maker.holds(self.data):
            self._maker = BatchMaker(self.data, self.num_neighbors, seed=self._seed or 0)
        return self._maker

    def _finished(self, batch: Data) -> Any:
        return batch if self.transform is None else self.transform(batch)


_OWN = tuple(inspect.signature(NeighborLoader).parameters)


def _then(make: Callable[[int], Data], finish: Callable[[Data], Any], index: int) -> Any:
    return finish(make(index))


def _each(
    batches: Generator[Any, None, None] | OrderedPipeline[Any], finish: Callable[[Data], Any]
) -> Generator[Any, None, None]:
    """Every batch finished where it is taken."""
    try:
        for batch in batches:
            yield finish(batch)
    finally:
        batches.close()
