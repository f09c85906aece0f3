"""The loops of `gnnplan.planner.program.cuts`, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count(indptr, indices, rows, kept):
    """Entries of some rows in the columns that are kept."""
    total = 0
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            total += kept[indices[at]]
    return total


@njit(cache=True, nogil=True)
def counts(indptr, indices, rows, num_columns):
    """int64 [columns]: entries of some rows in every column."""
    found = np.zeros(num_columns, np.int64)
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            found[indices[at]] += 1
    return found


@njit(cache=True, nogil=True)
def mark(indptr, indices, rows, found):
    """Sets `found` where some rows have entries in a column."""
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            found[indices[at]] = True
