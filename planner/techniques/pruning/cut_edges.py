"""The edges of a partition that end at another worker than they begin at, and the halo vertices they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class CutEdges:
    """Entries of an aggregation matrix whose row and column have different owners.

    Shapes: E entries, K (worker, halo vertex) pairs in ascending order, N vertices.

    Args:
        keys: int64 [K], worker * N + vertex of every pair.
        source, target: int [E], column and row of every entry, global ids.
        entering: int64 [E], the pair that an entry is gathered by: its target's owner, its source.
        leaving: int64 [E], the pair of its source's owner and its target; -1 where there is none.
    """

    num_nodes: int
    keys: np.ndarray
    source: np.ndarray
    target: np.ndarray
    entering: np.ndarray
    leaving: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_matrix, part: np.ndarray) -> CutEdges:
        """Those of a partition, int [N]."""
        num_nodes, owner = len(part), part.astype(np.int64)
        rows = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
        is_cut = part[rows] != part[matrix.indices]
        source, target = matrix.indices[is_cut], rows[is_cut]
        keys, entering = np.unique(owner[target] * num_nodes + source, return_inverse=True)
        found = cls(num_nodes, keys, source, target, entering, np.empty(0, np.int64))
        return cls(num_nodes, keys, source, target, entering, found.pairs_of(owner[source], target))

    def pairs_of(self, worker: np.ndarray | int, vertex: np.ndarray) -> np.ndarray:
        """int64: the pair of every worker and vertex; -1 where the vertex is in no halo of the worker."""
        wanted = worker * self.num_nodes + vertex.astype(np.int64)
        if not len(self.keys):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, at, -1)
