"""Batches made by a GPU: graph and features stay in page-locked host memory, and what is read often on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader.utils import index_select

from planner.minibatch.cache import CachePlan
from profiles.errors import UserError
from profiles.kernels.csc import Csc
from profiles.kernels.gather import can_gather
from profiles.kernels.sampling import Sample
from profiles.kernels.sampling_gpu import KeptEdges, gather, sample


class DeviceSource:
    """Makes batches in device memory, equal to the CPU's, reading host memory directly (UVA).

    Args:
        graph: sampled from; its pointers are kept on the device (8 bytes a vertex), its edges page-locked.
        device: a CUDA device; a CPU only where Triton's interpreter stands in for one.
        cache: what is kept on the device.
        cached: the tensor [N, ...] whose rows `cache.features` names; given with `cache`.
    """

    def __init__(
        self, graph: Csc, device: torch.device, *, cache: CachePlan | None = None, cached: Tensor | None = None
    ) -> None:
        self._device = device
        self._indptr = torch.from_numpy(graph.indptr).to(device)
        self._indices = self._locked(torch.from_numpy(graph.indices))
        self._edge_ids = None if graph.edge_ids is None else self._locked(torch.from_numpy(graph.edge_ids))
        self._kept_edges = None if cache is None else self._keep_edges(graph, cache.adjacency)
        self._tables: dict[int, tuple[Tensor, Tensor]] = {}  # the tensor given, page-locked
        self._cached = cached
        assert (cache is None) == (cached is None)
        if cache is not None and cached is not None:
            features = torch.from_numpy(cache.features)
            self._kept_rows = cached[features].to(device)
            slots = torch.full((graph.num_vertices,), -1, dtype=torch.int64)
            slots[features] = torch.arange(len(features))
            self._slots = slots.to(device)

    def sample(self, seeds: Tensor, fan_outs: Sequence[int], keys: Sequence[int]) -> Sample:
        """As `Source`.

        Raises:
            UserError: a fan-out that takes all neighbours, or repeated seeds, which the kernels do not know.
        """
        if min(fan_outs) < 1:
            raise UserError(f"a GPU samples fan-outs of 1 and more, not {list(fan_outs)}")
        if len(seeds.unique()) < len(seeds):
            raise UserError("a GPU samples from seeds that are all different")
        n_id, edge_index, positions, num_nodes, num_edges = sample(
            self._indptr, self._indices, seeds.to(self._device), fan_outs, keys, self._kept_edges
        )
        e_id = positions if self._edge_ids is None else gather(self._edge_ids, positions)
        return Sample(n_id, edge_index, e_id, num_nodes, num_edges)

    def rows(self, value: Any, dim: int, index: Tensor) -> Any:
        """As `Source`; what the kernels cannot read is picked on the host and copied."""
        if dim != 0 or not isinstance(value, Tensor) or not can_gather(value):
            picked = index_select(value, index.to(value.device) if isinstance(value, Tensor) else index.cpu(), dim)
            return picked.to(self._device) if isinstance(picked, Tensor) else picked
        if value is self._cached:
            return gather(self._table(value), index, self._kept_rows, self._slots[index])
        return gather(self._table(value), index)

    def _table(self, value: Tensor) -> Tensor:
        if id(value) not in self._tables:
            self._tables[id(value)] = value, self._locked(value)
        return self._tables[id(value)][1]

    def _locked(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _keep_edges(self, graph: Csc, vertices: np.ndarray) -> KeptEdges | None:
        if not len(vertices):
            return None
        degrees = np.diff(graph.indptr)[vertices]
        ends = np.cumsum(degrees)
        starts = np.full(graph.num_vertices, -1, np.int64)
        starts[vertices] = ends - degrees
        positions = np.arange(ends[-1]) + np.repeat(graph.indptr[vertices] - (ends - degrees), degrees)
        return KeptEdges(
            torch.from_numpy(graph.indices[positions]).to(self._device), torch.from_numpy(starts).to(self._device)
        )
