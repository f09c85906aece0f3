"""A matrix in which only some rows have entries."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def only_rows(matrix: sp.csr_matrix, rows: np.ndarray) -> sp.csr_matrix:
    """The same matrix without the entries of all other rows; those that stay keep their order.

    Args:
        rows: int64, of the matrix.
    """
    counts = np.zeros(matrix.shape[0], np.int64)
    counts[rows] = np.diff(matrix.indptr)[rows]
    stays = np.repeat(counts > 0, np.diff(matrix.indptr))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(matrix.indptr.dtype)
    return sp.csr_matrix((matrix.data[stays], matrix.indices[stays], indptr), shape=matrix.shape)
