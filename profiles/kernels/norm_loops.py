"""The loops of `gnnplan.profiles.kernels.norms` on a CPU, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

_SUMS_OF_A_ROW = {"reassoc", "contract"}  # so that they are added in vectors


@njit(parallel=True, nogil=True, cache=True, fastmath=_SUMS_OF_A_ROW)
def layer_norm(x, weight, bias, eps, out):  # pragma: no cover - compiled
    """Rows of `x`, each by its own mean and variance, into `out`."""
    rows, width = x.shape
    for i in prange(rows):
        mean, square = np.float32(0), np.float32(0)
        for j in range(width):
            mean += x[i, j]
        mean /= np.float32(width)
        for j in range(width):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        rate = np.float32(1) / np.sqrt(square / np.float32(width) + np.float32(eps))
        for j in range(width):
            out[i, j] = (x[i, j] - mean) * rate * weight[j] + bias[j]


@njit(parallel=True, nogil=True, cache=True, fastmath=_SUMS_OF_A_ROW)
def layer_norm_backward(grad, x, weight, eps, out, sums):  # pragma: no cover - compiled
    """The gradient at the rows into `out`; at weight and bias, of every part of the rows, added to `sums`."""
    rows, width = x.shape
    parts = len(sums)
    count = np.float32(width)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            mean, square = np.float32(0), np.float32(0)
            for j in range(width):
                mean += x[i, j]
            mean /= count
            for j in range(width):
                square += (x[i, j] - mean) * (x[i, j] - mean)
            rate = np.float32(1) / np.sqrt(square / count + np.float32(eps))
            along, across = np.float32(0), np.float32(0)
            for j in range(width):
                scaled = grad[i, j] * weight[j]
                along += scaled
                across += scaled * (x[i, j] - mean)
            along /= count
            across *= rate * rate / count
            for j in range(width):
                deviation = x[i, j] - mean
                sums[part, 0, j] += grad[i, j] * deviation * rate
                sums[part, 1, j] += grad[i, j]
                out[i, j] = rate * (grad[i, j] * weight[j] - along - deviation * across)


@njit(parallel=True, nogil=True, cache=True)
def means(x, sums, mean):  # pragma: no cover - compiled
    """The mean of every column into `mean`; its sums, of every part of the rows, added to `sums`."""
    rows, width = x.shape
    parts = len(sums)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, j] += x[i, j]
    for j in range(width):
        mean[j] = 0.0
        for part in range(parts):
            mean[j] += sums[part, j]
        mean[j] /= rows


@njit(parallel=True, nogil=True, cache=True)
def squares(x, sums, mean):  # pragma: no cover - compiled
    """Sums of the squares of distances from the mean, of every part of the rows, added to `sums`."""
    rows, width = x.shape
    parts = len(sums)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, j] += (x[i, j] - mean[j]) * (x[i, j] - mean[j])


@njit(parallel=True, nogil=True, cache=True)
def scaled(x, mean, scale, bias, out):  # pragma: no cover - compiled
    """(x - mean) scale + bias, into `out`."""
    rows, width = x.shape
    for i in prange(rows):
        for j in range(width):
            out[i, j] = (x[i, j] - mean[j]) * scale[j] + bias[j]


@njit(parallel=True, nogil=True, cache=True)
def scaled_backward(grad, x, mean, scale, out, sums):  # pragma: no cover - compiled
    """The gradient at the rows alone into `out`; its sums, of every part of the rows, added to `sums`."""
    rows, width = x.shape
    parts = len(sums)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, 0, j] += grad[i, j] * (x[i, j] - mean[j])
                sums[part, 1, j] += grad[i, j]
                out[i, j] = grad[i, j] * scale[j]
