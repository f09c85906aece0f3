"""GAT's attention (Velickovic et al. 2018, eq. 3-4): fused on CPU with numba, torch operators on CUDA.

Shapes: n target rows, m source rows, E edges, H heads, C channels a head. Edges stand in CSR order
of their target; `EdgeBlock` also lists them by source, so that both directions run in parallel
without atomics and with a fixed order of additions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from gnnplan.profiles.kernels import pool

NEGATIVE_SLOPE = 0.2
_EPSILON = 1e-16  # as torch_geometric.utils.softmax


@dataclass(frozen=True)
class EdgeBlock:
    """Edges by target (`indptr`, `source`, `target`) and by source (`by_source_ptr`, `by_source_edge`)."""

    indptr: Tensor
    source: Tensor
    target: Tensor
    by_source_ptr: Tensor
    by_source_edge: Tensor

    @classmethod
    def from_csr(cls, matrix: sp.csr_matrix, device: torch.device | str = "cpu") -> EdgeBlock:
        """From a CSR [n, m] whose entries are the edges; values are not used."""
        target = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
        arrays = (
            matrix.indptr,
            matrix.indices,
            target,
            np.concatenate([[0], np.cumsum(counts)]),
            np.argsort(matrix.indices, kind="stable"),
        )
        return cls(*(torch.from_numpy(array.astype(np.int64)).to(device) for array in arrays))


def attention_forward(edges: EdgeBlock, h: Tensor, a_source: Tensor, a_target: Tensor, out: Tensor) -> Tensor:
    """Writes the attention-weighted sum of source rows to `out` [n, H, C].

    Args:
        h: float32 [m, H, C].
        a_source: float32 [m, H], score of a row as a source; a_target: float32 [n, H] as a target.

    Returns:
        The attention coefficients [E, H], which the backward pass needs.
    """
    alpha = pool.empty(h.device, len(edges.source), h.shape[1])
    if h.device.type == "cpu":
        _forward_cpu(
            edges.indptr.numpy(),
            edges.source.numpy(),
            h.numpy(),
            a_source.numpy(),
            a_target.numpy(),
            out.numpy(),
            alpha.numpy(),
        )
        return alpha
    score = torch.nn.functional.leaky_relu(a_source[edges.source] + a_target[edges.target], NEGATIVE_SLOPE)
    index = edges.target[:, None].expand_as(score)
    top = torch.full_like(a_target, -torch.inf).scatter_reduce_(0, index, score, "amax")
    weight = torch.exp(score - top[edges.target])
    total = torch.zeros_like(a_target).scatter_add_(0, index, weight)
    alpha = weight / (total[edges.target] + _EPSILON)
    out.zero_().index_add_(0, edges.target, alpha[:, :, None] * h[edges.source])
    return alpha


def attention_backward(
    edges: EdgeBlock, h: Tensor, a_source: Tensor, a_target: Tensor, alpha: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at `h`, `a_source`, `a_target` from `grad` [n, H, C] at the output."""
    grad_h, grad_source, grad_target = (pool.empty_like(value) for value in (h, a_source, a_target))
    if h.device.type == "cpu":
        grad_score = pool.empty_like(alpha)
        _backward_scores_cpu(
            edges.indptr.numpy(),
            edges.source.numpy(),
            h.numpy(),
            a_source.numpy(),
            a_target.numpy(),
            alpha.numpy(),
            grad.numpy(),
            grad_score.numpy(),
            grad_target.numpy(),
        )
        _backward_sources_cpu(
            edges.by_source_ptr.numpy(),
            edges.by_source_edge.numpy(),
            edges.target.numpy(),
            alpha.numpy(),
            grad_score.numpy(),
            grad.numpy(),
            grad_h.numpy(),
            grad_source.numpy(),
        )
        return grad_h, grad_source, grad_target
    grad_edge = grad[edges.target]
    grad_alpha = (grad_edge * h[edges.source]).sum(-1)
    grad_h.zero_().index_add_(0, edges.source, alpha[:, :, None] * grad_edge)
    product = alpha * grad_alpha
    mean = torch.zeros_like(a_target).index_add_(0, edges.target, product)
    grad_score = product - alpha * mean[edges.target]
    negative = a_source[edges.source] + a_target[edges.target] <= 0
    grad_score = torch.where(negative, grad_score * NEGATIVE_SLOPE, grad_score)
    grad_source.zero_().index_add_(0, edges.source, grad_score)
    grad_target.zero_().index_add_(0, edges.target, grad_score)
    return grad_h, grad_source, grad_target


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _forward_cpu(indptr, source, h, a_source, a_target, out, alpha):  # pragma: no cover - compiled
    heads, channels = h.shape[1], h.shape[2]
    for i in prange(len(indptr) - 1):
        begin, end = indptr[i], indptr[i + 1]
        for k in range(heads):
            top = np.float32(-np.inf)
            for e in range(begin, end):
                score = a_source[source[e], k] + a_target[i, k]
                if score < 0:
                    score *= np.float32(NEGATIVE_SLOPE)
                alpha[e, k] = score
                top = max(top, score)
            total = np.float32(_EPSILON)
            for e in range(begin, end):
                weight = np.exp(alpha[e, k] - top)
                alpha[e, k] = weight
                total += weight
            for c in range(channels):
                out[i, k, c] = 0
            for e in range(begin, end):
                weight = alpha[e, k] / total
                alpha[e, k] = weight
                row = source[e]
                for c in range(channels):
                    out[i, k, c] += weight * h[row, k, c]


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _backward_scores_cpu(
    indptr, source, h, a_source, a_target, alpha, grad, grad_score, grad_target
):  # pragma: no cover
    heads, channels = h.shape[1], h.shape[2]
    for i in prange(len(indptr) - 1):
        for k in range(heads):
            mean = np.float32(0)
            for e in range(indptr[i], indptr[i + 1]):
                row = source[e]
                dot = np.float32(0)
                for c in range(channels):
                    dot += grad[i, k, c] * h[row, k, c]
                grad_score[e, k] = dot
                mean += alpha[e, k] * dot
            total = np.float32(0)
            for e in range(indptr[i], indptr[i + 1]):
                value = alpha[e, k] * (grad_score[e, k] - mean)
                if a_source[source[e], k] + a_target[i, k] <= 0:  # at zero torch takes this slope
                    value *= np.float32(NEGATIVE_SLOPE)
                grad_score[e, k] = value
                total += value
            grad_target[i, k] = total


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _backward_sources_cpu(ptr, edge, target, alpha, grad_score, grad, grad_h, grad_source):  # pragma: no cover
    heads, channels = grad.shape[1], grad.shape[2]
    for j in prange(len(ptr) - 1):
        for k in range(heads):
            total = np.float32(0)
            for c in range(channels):
                grad_h[j, k, c] = 0
            for position in range(ptr[j], ptr[j + 1]):
                e = edge[position]
                i = target[e]
                weight = alpha[e, k]
                total += grad_score[e, k]
                for c in range(channels):
                    grad_h[j, k, c] += weight * grad[i, k, c]
            grad_source[j, k] = total
