"""One mini-batch as PyG's loader makes it: the sampled subgraph with the rows of every attribute."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.typing import TensorFrame

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.sampling import hop_key
from gnnplan.runtime.sampling.source import Source


class BatchMaker:
    """Makes batches, each a pure function of (seed, epoch, batch) and its seeds; any thread may ask.

    Args:
        data: one homogeneous graph.
        fan_outs: neighbours a hop, -1 for all.
        seed: of every draw.
    """

    def __init__(self, data: Data, fan_outs: Sequence[int], *, seed: int) -> None:
        self._fan_outs, self._seed = fan_outs, seed
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

    def sliced(self) -> dict[str, Any]:
        """The attributes whose rows a batch holds, by name: those with an entry a vertex or edge."""
        return {key: value for key, (value, _) in (self._node_level | self._edge_level).items()}

    def row_bytes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of every attribute by name, bytes a vertex, and of those with an entry an edge, bytes an edge."""
        of_vertex, of_edge = (
            {key: _row_bytes(value, dim) for key, (value, dim) in attributes.items()}
            for attributes in (self._node_level, self._edge_level)
        )
        return of_vertex, of_edge

    def holds(self, data: Data) -> bool:
        """Whether the attributes are those of `data` as it is now: none was added, exchanged or deleted."""
        mine, its = self._rest._store, data._store
        return mine.keys() == its.keys() and all(mine[key] is value for key, value in its.items())

    def make(
        self, source: Source, seeds: Tensor, input_id: Tensor, epoch: int, batch: int, seed: int | None = None
    ) -> Data:
        """One batch from `seeds` int64 [B], with their names `input_id` [B], made by `source`.

        Args:
            seed: of its draws, in place of the maker's.
        """
        seed = self._seed if seed is None else seed
        keys = [hop_key(seed, epoch, batch, hop) for hop in range(len(self._fan_outs))]
        sample = source.sample(seeds, self._fan_outs, keys)
        out = copy.copy(self._rest)
        store = out._store
        if "num_nodes" in store:
            store["num_nodes"] = len(sample.n_id)
        store["edge_index"] = sample.edge_index
        for attributes, index in ((self._node_level, sample.n_id), (self._edge_level, sample.e_id)):
            for key, (value, dim) in attributes.items():
                store[key] = source.rows(value, dim, index)
        for key, value in (("n_id", sample.n_id), ("e_id", sample.e_id)):
            if key not in self._rest:
                store[key] = value
        store["num_sampled_nodes"], store["num_sampled_edges"] = sample.num_nodes, sample.num_edges
        if sample.tree is not None:
            store["batch"] = sample.tree
        store["input_id"], store["batch_size"] = input_id, len(seeds)
        return out


def _sliceable(data: Data, key: str, value: Any) -> tuple[Any, int]:
    """The value and the dimension that vertices or edges run along."""
    if not isinstance(value, Tensor | np.ndarray | TensorFrame):
        raise UserError(f"attribute {key} is a {type(value).__name__} with an entry a vertex or edge; make it a tensor")
    return value, data.__cat_dim__(key, value, data._store)


def _row_bytes(value: Any, dim: int) -> int:
    """Bytes of one entry; of a frame of many types none are counted."""
    if isinstance(value, TensorFrame):
        return 0
    return value.itemsize * math.prod(value.shape) // max(1, value.shape[dim])
