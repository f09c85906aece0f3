"""How unevenly a matrix reads rows, as a share of those it reads.

Rows that are read more often than others stay in a cache, so that a product with them is as fast as one that reads
fewer rows, all equally often.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.parts import Block

_DIGITS = 6


def whole_block(name: str, row: str, column: str, matrix: sp.csr_matrix) -> Block:
    """The block of one worker that has all of a matrix."""
    of_columns = share_in_use(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    return Block(name, row, column, (matrix.nnz,), in_use=(of_columns, share_in_use(np.diff(matrix.indptr))))


def share_in_use(times_read: np.ndarray, num_rows: np.ndarray | None = None) -> float:
    """Rows in use over rows read: 1 where all are read equally often.

    Where row v is read c(v) times, (sum of sqrt c)^2 / (sum of c) rows are in use. It is the exponential of Rényi's
    entropy of order 1/2 of which row is read next. It was the nearest of three rules to what products with real graphs
    take on one machine, and a little farther than the rows read on another (`python -m benchmarks halo_blocks`).

    Args:
        times_read: [B], how often a row is read.
        num_rows: [B], how many rows are read so often (None: one each).
    """
    weights = np.ones(len(times_read)) if num_rows is None else num_rows
    num_read = float(weights @ (times_read > 0))
    if not num_read:
        return 1.0
    in_use = float(weights @ np.sqrt(times_read)) ** 2 / float(weights @ times_read)
    return min(1.0, round(in_use / num_read, _DIGITS))
