"""Pairs of vertices that a model is to tell apart, as matrices and what is told of their entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

TRAINED, RANKED = "pairs", "ranked pairs"
"""The names of the tables."""
NUM_TOLD = 4
"""Columns of what is told of ranked pairs: edge to be trained on, validated, tested, and no edge."""


@dataclass(frozen=True)
class PairTable:
    """Some pairs.

    Args:
        matrix: CSR int64 [N, N]: row i has its pairs (i, j), by their number from 1.
        told: float32 [n, D], of every pair what is told of it.
    """

    matrix: sp.csr_matrix
    told: np.ndarray

    @classmethod
    def of(cls, num_nodes: int, heads: np.ndarray, tails: np.ndarray, told: np.ndarray) -> PairTable:
        """From pairs in any order, each of them once."""
        order = np.lexsort((tails, heads))
        numbers = np.arange(1, len(order) + 1, dtype=np.int64)
        matrix = sp.csr_matrix((numbers, (heads[order], tails[order])), (num_nodes, num_nodes))
        assert matrix.nnz == len(order), "a pair is there twice"
        return cls(matrix, np.ascontiguousarray(told[order], np.float32))

    @property
    def num_pairs(self) -> int:
        """n."""
        return len(self.told)

    def arrays(self) -> Iterator[np.ndarray]:
        """All that it holds."""
        yield from (self.matrix.indptr, self.matrix.indices, self.told)


@dataclass(frozen=True)
class Pairs:
    """What a link prediction trains on and is measured by.

    Args:
        trained: told 1 of edges, 0 of others, [n, 1].
        ranked: told `NUM_TOLD` zeros and ones.
    """

    trained: PairTable
    ranked: PairTable

    def named(self) -> dict[str, PairTable]:
        """By name."""
        return {TRAINED: self.trained, RANKED: self.ranked}
