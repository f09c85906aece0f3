"""Norms of rows and of columns in one or two passes over the rows, without a matrix beside input and output.

Sums over rows are taken in float64, by parts of the rows: a part a thread.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import get_num_threads, njit, prange
from torch import Tensor

from gnnplan.profiles.kernels import pool

_SUMS_OF_A_ROW = {"reassoc", "contract"}  # so that they are added in vectors


@njit(parallel=True, nogil=True, cache=True, fastmath=_SUMS_OF_A_ROW)
def _layer_norm_cpu(x, weight, bias, eps, out):  # pragma: no cover - compiled
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
def _layer_norm_backward_cpu(grad, x, weight, eps, out, sums):  # pragma: no cover - compiled
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
def _moments_cpu(x, sums, mean):  # pragma: no cover - compiled
    """Sums of every part: of the rows (index 0), then of the squares of their distance from the mean (index 1)."""
    rows, width = x.shape
    parts = len(sums)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, 0, j] += x[i, j]
    for j in range(width):
        mean[j] = 0.0
        for part in range(parts):
            mean[j] += sums[part, 0, j]
        mean[j] /= rows
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, 1, j] += (x[i, j] - mean[j]) * (x[i, j] - mean[j])


@njit(parallel=True, nogil=True, cache=True)
def _batch_norm_cpu(x, mean, scale, bias, out):  # pragma: no cover - compiled
    rows, width = x.shape
    for i in prange(rows):
        for j in range(width):
            out[i, j] = (x[i, j] - mean[j]) * scale[j] + bias[j]


@njit(parallel=True, nogil=True, cache=True)
def _batch_norm_backward_cpu(grad, x, mean, scale, out, sums):  # pragma: no cover - compiled
    rows, width = x.shape
    parts = len(sums)
    for part in prange(parts):
        for i in range(part * rows // parts, (part + 1) * rows // parts):
            for j in range(width):
                sums[part, 0, j] += grad[i, j] * (x[i, j] - mean[j])
                sums[part, 1, j] += grad[i, j]
                out[i, j] = grad[i, j] * scale[j]


def _parts(width: int) -> np.ndarray:
    return np.zeros((get_num_threads(), 2, width))


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """[n, C] of rows x [n, C], weight and bias [C]."""
    if x.device.type == "cpu":
        out = pool.empty_like(x)
        _layer_norm_cpu(x.numpy(), weight.numpy(), bias.numpy(), eps, out.numpy())
        return out
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias, eps)


def layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at the rows [n, C], the weight and the bias [C]."""
    if x.device.type == "cpu":
        out, sums = pool.empty_like(x), _parts(x.shape[1])
        _layer_norm_backward_cpu(grad.numpy(), x.numpy(), weight.numpy(), eps, out.numpy(), sums)
        to_weight, to_bias = torch.from_numpy(sums.sum(0)).float()
        return out, to_weight, to_bias
    _, mean, rate = torch.native_layer_norm(x, x.shape[1:], weight, weight, eps)
    mask = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(grad, x, x.shape[1:], mean, rate, weight, weight, mask)


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of every column, and the sum of the squares of its deviations from it: [C] each, of rows [n > 0, C]."""
    if x.device.type == "cpu":
        sums, mean = _parts(x.shape[1]), np.empty(x.shape[1])
        _moments_cpu(x.numpy(), sums, mean)
        return torch.from_numpy(mean).float(), torch.from_numpy(sums[:, 1].sum(0)).float()
    variance, mean_of = torch.var_mean(x, 0, correction=0)
    return mean_of, variance * len(x)


def batch_norm(x: Tensor, mean: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """(x - mean) scale + bias, of rows [n, C]."""
    out = pool.empty_like(x)
    if x.device.type == "cpu":
        _batch_norm_cpu(x.numpy(), mean.numpy(), scale.numpy(), bias.numpy(), out.numpy())
        return out
    return torch.sub(x, mean, out=out).mul_(scale).add_(bias)


def batch_norm_backward(grad: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient at the rows alone [n, C], and of every column the sums of grad (x - mean) and of grad."""
    out = pool.empty_like(x)
    if x.device.type == "cpu":
        sums = _parts(x.shape[1])
        _batch_norm_backward_cpu(grad.numpy(), x.numpy(), mean.numpy(), scale.numpy(), out.numpy(), sums)
        across, along = torch.from_numpy(sums.sum(0)).float()
        return out, across, along
    torch.sub(x, mean, out=out).mul_(grad)
    across = out.sum(0)
    return torch.mul(grad, scale, out=out), across, grad.sum(0)
