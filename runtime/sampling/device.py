"""Batches made by a GPU from page-locked host memory, and from what lies on the device: nothing, a part or all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader.utils import index_select

from gnnplan.planner.minibatch.cache import POINTER_BYTES, CachePlan, Sizes, plan_cache
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.csc import Csc, in_neighbours_of, out_degrees
from gnnplan.profiles.kernels.gather import can_gather
from gnnplan.profiles.kernels.sampling import Sample
from gnnplan.profiles.kernels.sampling_gpu import MAX_FAN_OUT, KeptEdges, gather, sample
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.page_lock import PageLocks, cuda_page_locks
from gnnplan.runtime.sampling.presample import presample

_PRESAMPLED_BATCHES = 20


class DeviceSource:
    """Makes batches in device memory, equal to the CPU's, reading host memory directly (UVA).

    Args:
        graph: sampled from; its pointers are kept on the device (8 bytes a vertex), its edges page-locked. Where the
            cache has no room for the pointers they are page-locked too.
        device: a CUDA device; a CPU only where Triton's interpreter stands in for one.
        cache: what is kept on the device.
        cached: the tensor [N, ...] whose rows `cache.features` names; given with `cache`.
        resident: keep the whole graph, and every tensor that rows are asked of, on the device instead.
        locks: page-lock what stays in host memory while the source lives; None: CUDA's own on a CUDA device.
    """

    def __init__(
        self,
        graph: Csc,
        device: torch.device,
        *,
        cache: CachePlan | None = None,
        cached: Tensor | None = None,
        resident: bool = False,
        locks: PageLocks | None = None,
    ) -> None:
        assert (cache is None) == (cached is None)
        assert not (resident and cache is not None), "all of it or a part"
        self.is_resident = resident
        self._device = device
        self._locks = locks or (cuda_page_locks() if device.type == "cuda" else None)
        self._tables: dict[int, tuple[Tensor, Tensor]] = {}  # the tensor given, where it can be read
        pointers = torch.from_numpy(graph.indptr)
        self._indptr = pointers.to(device) if cache is None or cache.keeps_pointers else self._readable(pointers)
        self._indices = self._readable(torch.from_numpy(graph.indices))
        self._edge_ids = None if graph.edge_ids is None else self._readable(torch.from_numpy(graph.edge_ids))
        self._kept_edges: KeptEdges | None = None
        self._cached: Tensor | None = None
        if cache is not None and len(cache.adjacency):
            self._kept_edges = _kept_edges(graph, cache.adjacency, device)
        if cache is not None and cached is not None and len(cache.features) and can_gather(cached):
            self._keep_rows(cached, torch.from_numpy(cache.features))

    def sample(self, seeds: Tensor, fan_outs: Sequence[int], keys: Sequence[int]) -> Sample:
        """As `Source`.

        Raises:
            UserError: fan-outs that `can_sample` does not take, or repeated seeds, which the kernels do not know.
        """
        if not can_sample(fan_outs):
            raise UserError(f"a GPU samples fan-outs of 1 to {MAX_FAN_OUT}, not {list(fan_outs)}")
        if len(seeds.unique()) < len(seeds):
            raise UserError("a GPU samples from seeds that are all different")
        n_id, edge_index, positions, num_nodes, num_edges = sample(
            self._indptr, self._indices, seeds.to(self._device), fan_outs, keys, self._kept_edges
        )
        return Sample(n_id, edge_index, self._ids_of(positions, n_id[edge_index[1]]), num_nodes, num_edges)

    def _ids_of(self, positions: Tensor, targets: Tensor) -> Tensor:
        """int64 [e], the edges at these positions, which lead to these vertices."""
        if self._edge_ids is None:
            return positions
        kept = self._kept_edges
        if kept is None:
            return gather(self._edge_ids, positions)
        return gather(self._edge_ids, positions, kept.ids, kept.slots(self._indptr, targets, positions))

    def rows(self, value: Any, dim: int, index: Tensor) -> Any:
        """As `Source`; what the kernels cannot read is picked on the host and copied."""
        if dim != 0 or not isinstance(value, Tensor) or not can_gather(value):
            picked = index_select(value, index.to(value.device) if isinstance(value, Tensor) else index.cpu(), dim)
            return picked.to(self._device) if isinstance(picked, Tensor) else picked
        if value is self._cached:
            return gather(self._table(value), index, self._kept_rows, self._slots[index].to(torch.int64))
        return gather(self._table(value), index)

    def _table(self, value: Tensor) -> Tensor:
        if id(value) not in self._tables:
            self._tables[id(value)] = value, self._readable(value)
        return self._tables[id(value)][1]

    def _readable(self, tensor: Tensor) -> Tensor:
        """What the kernels read in its place: itself on the device, or page-locked."""
        if self.is_resident:
            return tensor.to(self._device)
        return tensor if self._locks is None else self._locks.locked(tensor, self)

    def _keep_rows(self, cached: Tensor, vertices: Tensor) -> None:
        self._cached = cached
        # By the kernel: picked on the host, they would lie there once more for a moment.
        self._kept_rows = gather(self._table(cached), vertices.to(self._device))
        slots = torch.full((len(cached),), -1, dtype=torch.int32)
        slots[vertices] = torch.arange(len(vertices), dtype=torch.int32)
        self._slots = slots.to(self._device)


def _kept_edges(graph: Csc, vertices: np.ndarray, device: torch.device) -> KeptEdges:
    """The in-neighbours of some vertices on the device, and beside them their edges' ids."""
    lists, starts = in_neighbours_of(graph, vertices)
    ids = None
    if graph.edge_ids is not None:
        ids = torch.from_numpy(in_neighbours_of(Csc(graph.indptr, graph.edge_ids), vertices)[0]).to(device)
    return KeptEdges(torch.from_numpy(lists).to(device), torch.from_numpy(starts).to(device), ids)


def can_sample(fan_outs: Sequence[int]) -> bool:
    """Whether a GPU's kernels take the fan-outs: not all neighbours, nor very many."""
    return all(1 <= fan_out <= MAX_FAN_OUT for fan_out in fan_outs)


@dataclass(frozen=True)
class Kept:
    """A source and what of a loader's graph it keeps on the device.

    Args:
        num_bytes: that this takes, once every attribute has been asked for.
        cache: what was chosen; None where everything is kept.
    """

    source: DeviceSource
    num_bytes: int
    cache: CachePlan | None = None


def source_within(loader: NeighborLoader, device: torch.device, budget_bytes: int, *, cached: str = "x") -> Kept:
    """A source that keeps everything on the device where that fits a budget, else what batches read most of it.

    Args:
        budget_bytes: of the device's memory, for the graph, the features and what finds their rows.
        cached: the attribute whose rows are kept where not everything is.
    """
    whole_bytes = resident_bytes(loader)
    if whole_bytes is not None and whole_bytes <= budget_bytes:
        return Kept(DeviceSource(loader.graph, device, resident=True), whole_bytes)
    return cached_source(loader, device, budget_bytes, cached=cached)


def cached_source(loader: NeighborLoader, device: torch.device, budget_bytes: int, *, cached: str = "x") -> Kept:
    """A source that reads host memory but for what a presampling pass finds worth keeping within a budget."""
    graph, table = loader.graph, loader.sliced().get(cached)
    if not isinstance(table, Tensor):
        raise UserError(f"the graph has no tensor {cached} with a row a vertex; name the one whose rows are kept")
    cache = plan_cache(
        presample(loader, _PRESAMPLED_BATCHES),
        np.diff(graph.indptr),
        out_degrees(graph),
        sizes_of(loader, cached),
        budget_bytes=budget_bytes,
    )
    return Kept(DeviceSource(graph, device, cache=cache, cached=table), cache.num_bytes, cache)


def sizes_of(loader: NeighborLoader, cached: str = "x") -> Sizes:
    """Bytes of what batches read of a vertex and an edge, where the rows of attribute `cached` may be kept.

    They are not where the kernels cannot gather them: then they are read like any other attribute's.
    """
    graph, (of_vertex, of_edge) = loader.graph, loader.row_bytes()
    row, table = of_vertex.pop(cached), loader.sliced()[cached]
    can_be_kept = isinstance(table, Tensor) and can_gather(table)
    others = tuple(of_vertex.values())
    return Sizes(
        index=graph.indices.itemsize,
        row=row if can_be_kept else 0,
        edge_id=0 if graph.edge_ids is None else graph.edge_ids.itemsize,
        other_rows=others if can_be_kept else (row, *others),
        other_edges=tuple(of_edge.values()),
    )


def resident_bytes(loader: NeighborLoader) -> int | None:
    """What a loader's graph and attributes take on a device; None where one of them cannot lie there."""
    values = list(loader.sliced().values())
    if not all(isinstance(value, Tensor) and can_gather(value) for value in values):
        return None
    graph = loader.graph
    edges_bytes = graph.indices.nbytes + (0 if graph.edge_ids is None else graph.edge_ids.nbytes)
    return POINTER_BYTES * len(graph.indptr) + edges_bytes + sum(value.nbytes for value in values)
