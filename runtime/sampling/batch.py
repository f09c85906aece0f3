"""One mini-batch as PyG's loader makes it: the sampled subgraph with the rows of every attribute."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader.utils import index_select
from torch_geometric.typing import TensorFrame

from profiles.errors import UserError
from profiles.kernels.csc import csc_from_edges
from profiles.kernels.gather import can_gather, copy_rows
from profiles.kernels.sampling import NeighbourSampler, Sample, hop_key
from runtime.sampling.arguments import check_edges
from runtime.sampling.blocks import BatchBlocks


class BatchMaker:
    """Makes batches, each a pure function of (seed, epoch, batch) and its seeds; any thread may ask.

    Args:
        data: one homogeneous graph.
        fan_outs: neighbours a hop, -1 for all.
        seed: of every draw.
        blocks: memory for what is returned.
        alone: only one thread makes batches, so torch may use all cores to pick rows.
    """

    def __init__(self, data: Data, fan_outs: Sequence[int], *, seed: int, blocks: BatchBlocks, alone: bool) -> None:
        self._fan_outs, self._seed = fan_outs, seed
        self._empty = blocks.empty
        self._alone = alone
        self._graph = csc_from_edges(check_edges(data).numpy(), data.num_nodes)
        # Taken by a thread for one batch and put back: as many as there ever were threads at once.
        self._samplers: list[NeighbourSampler] = []
        self._rest = copy.copy(data)
        self._node_level: dict[str, tuple[Any, int]] = {}
        self._edge_level: dict[str, tuple[Any, int]] = {}
        for key, value in data._store.items():
            if key in ("edge_index", "num_nodes"):
                continue
            if data.is_node_attr(key):
                self._node_level[key] = _sliceable(data, key, value)
            elif data.is_edge_attr(key):
                self._edge_level[key] = _sliceable(data, key, value)

    def make(self, seeds: Tensor, input_id: Tensor, epoch: int, batch: int) -> Data:
        """One batch from `seeds` int64 [B], with their names `input_id` [B]."""
        sample = self._sample(seeds, epoch, batch)
        out = copy.copy(self._rest)
        store = out._store
        if "num_nodes" in store:
            store["num_nodes"] = len(sample.n_id)
        store["edge_index"] = sample.edge_index
        for attributes, index in ((self._node_level, sample.n_id), (self._edge_level, sample.e_id)):
            for key, (value, dim) in attributes.items():
                store[key] = self._slice(value, dim, index)
        for key, value in (("n_id", sample.n_id), ("e_id", sample.e_id)):
            if key not in self._rest:
                store[key] = value
        store["num_sampled_nodes"], store["num_sampled_edges"] = sample.num_nodes, sample.num_edges
        store["input_id"], store["batch_size"] = input_id, len(seeds)
        return out

    def _sample(self, seeds: Tensor, epoch: int, batch: int) -> Sample:
        try:
            sampler = self._samplers.pop()
        except IndexError:
            sampler = NeighbourSampler(self._graph)
        keys = [hop_key(self._seed, epoch, batch, hop) for hop in range(len(self._fan_outs))]
        try:
            return sampler.sample(seeds.numpy(), self._fan_outs, keys, self._empty)
        finally:
            self._samplers.append(sampler)

    def _slice(self, value: Any, dim: int, index: Tensor) -> Any:
        if dim != 0 or not isinstance(value, Tensor) or not can_gather(value):
            return index_select(value, index.to(value.device) if isinstance(value, Tensor) else index, dim)
        out = self._empty((len(index), *value.shape[1:]), value.dtype)
        return torch.index_select(value, 0, index, out=out) if self._alone else copy_rows(value, index, out)


def _sliceable(data: Data, key: str, value: Any) -> tuple[Any, int]:
    """The value and the dimension that vertices or edges run along."""
    if not isinstance(value, Tensor | np.ndarray | TensorFrame):
        raise UserError(f"attribute {key} is a {type(value).__name__} with an entry a vertex or edge; make it a tensor")
    return value, data.__cat_dim__(key, value, data._store)
