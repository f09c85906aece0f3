"""A graph as partitioners see it: undirected, without self loops, its vertices weighed by their edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.edges import edge_keys, symmetric_keys
from gnnplan.profiles.kernels.counter import splitmix_at

_CHUNK = 1 << 24


@dataclass(frozen=True)
class Undirected:
    """Every edge in both directions, each once.

    Args:
        starts: int64 [N + 1], where each vertex's neighbours begin.
        neighbours: int64 [2 E'].
        weight: int64 [N], of every vertex.
    """

    starts: np.ndarray
    neighbours: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, num_nodes: int, edge_index: np.ndarray) -> Undirected:
        """Of a directed graph with edges [2, E]."""
        keys = symmetric_keys(num_nodes, edge_index, drop_self_loops=True)
        return cls._of_keys(num_nodes, keys, vertex_weights(num_nodes, edge_index))

    @classmethod
    def _of_keys(cls, num_nodes: int, keys: np.ndarray, weight: np.ndarray) -> Undirected:
        starts = np.searchsorted(keys, np.arange(num_nodes + 1, dtype=np.int64) * num_nodes)
        for start in range(0, len(keys), _CHUNK):
            keys[start : start + _CHUNK] %= num_nodes
        return cls(starts.astype(np.int64), keys, weight)

    @property
    def num_nodes(self) -> int:
        """Number of vertices N."""
        return len(self.weight)

    @property
    def num_neighbours(self) -> int:
        """Twice the number of pairs."""
        return len(self.neighbours)

    def sampled(self, most: int) -> Undirected:
        """With about `most` neighbours where there are more: of every pair both directions or none, by its hash."""
        if self.num_neighbours <= most:
            return self
        threshold = np.uint64(int(most / self.num_neighbours * 2**64))
        source = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(self.starts))
        kept = []
        for start in range(0, self.num_neighbours, _CHUNK):
            u, v = source[start : start + _CHUNK], self.neighbours[start : start + _CHUNK]
            pair = edge_keys(self.num_nodes, np.minimum(u, v), np.maximum(u, v)).view(np.uint64)
            kept.append(edge_keys(self.num_nodes, u, v)[splitmix_at(pair, np.uint64(0)) < threshold])
        return self._of_keys(self.num_nodes, np.concatenate(kept), self.weight)


def vertex_weights(num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """int64 [N]: in-degree + 1 of every vertex, the entries of its row in the aggregation matrix."""
    weight = np.ones(num_nodes, np.int64)
    # bincount makes an int64 copy of its input: in chunks it stays small.
    for start in range(0, edge_index.shape[1], _CHUNK):
        weight += np.bincount(edge_index[1, start : start + _CHUNK], minlength=num_nodes)
    return weight
