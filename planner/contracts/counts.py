"""How much of a graph every worker has: numbers in place of arrays, so that a program can be priced without a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rows = tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Sizes of a graph that is shared out, [R] of the R workers of a program.

    Each of these may be the busiest of several that are alike, so R is not the number of workers.

    Args:
        num_nodes: N, of the whole graph.
        num_edges: stored entries of the whole aggregation matrix.
        num_workers: of all that train.
        shares: of rows and of columns that a worker has.
        own: rows that a worker owns.
        received, sent: halo rows of one aggregation.
        local_edges, remote_edges: entries of a worker's rows, in its own columns and in those of halo rows.
        split: of its own rows those of training, validation and test.
        even_own: rows that a worker owns where rows are shared out by number.
        busiest: how many times the halo rows of all that are like it a worker has, in the mean.
        routed: int64 [R, R] halo rows from worker to worker (None: from all others in proportion to their shares).
        touched: of the columns of a matrix with so many entries a column the share that has any.
    """

    num_nodes: int
    num_edges: int
    num_workers: int
    shares: tuple[float, ...]
    own: Rows
    received: Rows
    sent: Rows
    local_edges: Rows
    remote_edges: Rows
    split: tuple[Rows, Rows, Rows]
    even_own: Rows
    busiest: tuple[float, ...]
    routed: np.ndarray | None = None
    touched: Callable[[float], float] = lambda entries: min(1.0, entries)

    @property
    def is_of_each(self) -> bool:
        """Whether every worker stands for itself alone."""
        return len(self.own) == self.num_workers

    @property
    def routes(self) -> np.ndarray:
        """int64 [R, R]: halo rows from worker to worker; none where a worker stands for others, who are not told."""
        size = len(self.own)
        if self.routed is not None:
            return self.routed
        if not self.is_of_each or size == 1:
            return np.zeros((size, size), np.int64)
        shares = np.array(self.shares)
        from_each = shares[:, None] * np.array(self.received) / np.maximum(1 - shares, 1e-12)
        np.fill_diagonal(from_each, 0)
        return np.rint(from_each).astype(np.int64)
