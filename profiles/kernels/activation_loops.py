"""The loops of `gnnplan.profiles.kernels.activation` on a CPU, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from gnnplan.profiles.kernels.counter import GOLDEN, MIX_1, MIX_2


@njit(parallel=True, nogil=True, cache=True)
def relu_dropout(z, bias, vertices, first, whole, key, threshold, scale, relu):  # pragma: no cover - compiled
    """`z = dropout(relu(z + bias))` in place, as `activate_` says."""
    rows, width = z.shape
    for i in prange(rows):
        base = np.uint64(vertices[i]) * np.uint64(whole) + np.uint64(first) + np.uint64(key) + np.uint64(GOLDEN)
        for j in range(width):
            h = base + np.uint64(j)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(MIX_1)
            h = (h ^ (h >> np.uint64(27))) * np.uint64(MIX_2)
            h = h ^ (h >> np.uint64(31))
            value = z[i, j] + bias[j]
            keep = (h >> np.uint64(32)) >= np.uint64(threshold)
            if not keep or (relu and value < 0):
                value = np.float32(0)
            z[i, j] = value * scale
