"""The loops of `gnnplan.profiles.kernels.edges` on a CPU, compiled by numba.

Sums at sources have two loops with the same order of additions, so that no bit depends on which one runs. The parallel
one follows the edges of every source. Alone a thread is faster edge by edge, two to seven times where rows are short:
then it reads every array in order, and only the sums lie scattered.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from gnnplan.profiles.kernels.edge_block import NEGATIVE_SLOPE

_FAST = {"contract", "reassoc", "nsz"}
_ORDERED = {"nsz"}  # rounded in the same places by both loops
_SLOPE, _ZERO, _ONE = np.float32(NEGATIVE_SLOPE), np.float32(0), np.float32(1)


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def scores(sources, targets, source, target, out):  # pragma: no cover - compiled
    """Leaky ReLU of a source's and a target's score at every edge, into `out` [E, H]."""
    for e in prange(len(sources)):
        for k in range(out.shape[1]):
            score = source[sources[e], k] + target[targets[e], k]
            out[e, k] = score if score >= 0 else score * _SLOPE


@njit(parallel=True, nogil=True, cache=True, fastmath=_ORDERED)
def scores_to_targets(indptr, sources, source, target, grad, out):  # pragma: no cover - compiled
    """Gradients of scores at targets, into `out` [n, H]."""
    for i in prange(len(indptr) - 1):
        for k in range(out.shape[1]):
            out[i, k] = 0
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(out.shape[1]):
                slope = _SLOPE if source[sources[e], k] + target[i, k] <= 0 else _ONE
                out[i, k] += grad[e, k] * slope


@njit(parallel=True, nogil=True, cache=True, fastmath=_ORDERED)
def scores_to_sources(ptr, edge, targets, source, target, grad, out):  # pragma: no cover - compiled
    """Gradients of scores at sources, into `out` [m, H], by the edges of each source."""
    for j in prange(len(ptr) - 1):
        for k in range(out.shape[1]):
            out[j, k] = 0
        for position in range(ptr[j], ptr[j + 1]):
            e = edge[position]
            for k in range(out.shape[1]):
                slope = _SLOPE if source[j, k] + target[targets[e], k] <= 0 else _ONE
                out[j, k] += grad[e, k] * slope


@njit(nogil=True, cache=True, fastmath=_ORDERED)
def scores_to_both(indptr, sources, source, target, grad, to_source, to_target):  # pragma: no cover - compiled
    """Both gradients of scores in one pass, for one thread."""
    to_source[:] = 0
    for i in range(len(indptr) - 1):
        for k in range(to_target.shape[1]):
            to_target[i, k] = 0
        for e in range(indptr[i], indptr[i + 1]):
            row = sources[e]
            for k in range(to_target.shape[1]):
                slope = _SLOPE if source[row, k] + target[i, k] <= 0 else _ONE
                value = grad[e, k] * slope
                to_source[row, k] += value
                to_target[i, k] += value


@njit(parallel=True, nogil=True, cache=True)
def tops(indptr, score, top):  # pragma: no cover - compiled
    """Raises `top` [n, H] to the largest score of every target's edges."""
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(top.shape[1]):
                top[i, k] = max(top[i, k], score[e, k])


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def exponentials(indptr, score, top, weight, total):  # pragma: no cover - compiled
    """exp(score - top) of every edge, into `weight` [E, H], and added up by target in `total` [n, H]."""
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(top.shape[1]):
                weight[e, k] = np.exp(score[e, k] - top[i, k])
                total[i, k] += weight[e, k]


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def divide(indptr, weight, total):  # pragma: no cover - compiled
    """Divides `weight` [E, H] in place by the `total` [n, H] of its target."""
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(total.shape[1]):
                weight[e, k] /= total[i, k]


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def add_means(indptr, grad, alpha, mean):  # pragma: no cover - compiled
    """Adds gradient times coefficient up by target, in `mean` [n, H]."""
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(mean.shape[1]):
                mean[i, k] += grad[e, k] * alpha[e, k]


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def centre(indptr, grad, alpha, mean, out):  # pragma: no cover - compiled
    """The softmax's gradient alpha (grad - mean) of every edge, into `out` [E, H]."""
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(mean.shape[1]):
                out[e, k] = alpha[e, k] * (grad[e, k] - mean[i, k])


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def weigh(indptr, sources, alpha, h, out):  # pragma: no cover - compiled
    """Adds coefficient times the source's row up by target, in `out` [n, H, C]."""
    heads, channels = h.shape[1], h.shape[2]
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            row = sources[e]
            for k in range(heads):
                weight = alpha[e, k]
                for c in range(channels):
                    out[i, k, c] += weight * h[row, k, c]


@njit(parallel=True, nogil=True, cache=True, fastmath=_ORDERED)
def weigh_back(ptr, edge, targets, alpha, h, out):  # pragma: no cover - compiled
    """Adds coefficient times the target's row up by source, in `out` [m, H, C], by the edges of each source."""
    heads, channels = h.shape[1], h.shape[2]
    for j in prange(len(ptr) - 1):
        for k in range(heads):
            for position in range(ptr[j], ptr[j + 1]):
                e = edge[position]
                weight, row = alpha[e, k], targets[e]
                for c in range(channels):
                    out[j, k, c] += weight * h[row, k, c]


@njit(nogil=True, cache=True, fastmath=_ORDERED)
def weigh_back_alone(indptr, sources, alpha, h, out):  # pragma: no cover - compiled
    """As `weigh_back`, by the edges of each target, for one thread."""
    heads, channels = h.shape[1], h.shape[2]
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            row = sources[e]
            for k in range(heads):
                weight = alpha[e, k]
                for c in range(channels):
                    out[row, k, c] += weight * h[i, k, c]


@njit(parallel=True, nogil=True, cache=True, fastmath=_FAST)
def edge_dots(indptr, sources, grad, h, out):  # pragma: no cover - compiled
    """Inner products of a target's gradient and a source's row in every head, into `out` [E, H]."""
    heads, channels = h.shape[1], h.shape[2]
    for i in prange(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            row = sources[e]
            for k in range(heads):
                dot = _ZERO
                for c in range(channels):
                    dot += grad[i, k, c] * h[row, k, c]
                out[e, k] = dot
