"""The loops of `gnnplan.planner.program.cuts`, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count(indptr, indices, rows, kept):
    total = 0
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            total += kept[indices[at]]
    return total


@njit(cache=True, nogil=True)
def counts(indptr, indices, rows, num_columns):
    found = np.zeros(num_columns, np.int64)
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            found[indices[at]] += 1
    return found


@njit(cache=True, nogil=True)
def mark(indptr, indices, rows, found):
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            found[indices[at]] = True
