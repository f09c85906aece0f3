"""Norms of rows and of columns in one or two passes over the rows, without a matrix beside input and output.

Sums over rows are taken in float64, by parts of the rows: a part a thread.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.lazily import Lazily

_loops, _numba = Lazily("gnnplan.profiles.kernels.norm_loops"), Lazily("numba")


def _parts(width: int) -> np.ndarray:
    return np.zeros((_numba.get_num_threads(), 2, width))


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """[n, C] of rows x [n, C], weight and bias [C]."""
    if x.device.type == "cpu":
        out = pool.empty_like(x)
        _loops.layer_norm(x.numpy(), weight.numpy(), bias.numpy(), eps, out.numpy())
        return out
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias, eps)


def layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at the rows [n, C], the weight and the bias [C]."""
    if x.device.type == "cpu":
        out, sums = pool.empty_like(x), _parts(x.shape[1])
        _loops.layer_norm_backward(grad.numpy(), x.numpy(), weight.numpy(), eps, out.numpy(), sums)
        to_weight, to_bias = torch.from_numpy(sums.sum(0)).float()
        return out, to_weight, to_bias
    _, mean, rate = torch.native_layer_norm(x, x.shape[1:], weight, weight, eps)
    mask = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(grad, x, x.shape[1:], mean, rate, weight, weight, mask)


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of every column, and the sum of the squares of its deviations from it: [C] each, of rows [n > 0, C]."""
    if x.device.type == "cpu":
        mean, sums = _means(x), _parts(x.shape[1])[:, 0]
        _loops.squares(x.numpy(), sums, mean)
        return torch.from_numpy(mean).float(), torch.from_numpy(sums.sum(0)).float()
    variance, mean_of = torch.var_mean(x, 0, correction=0)
    return mean_of, variance * len(x)


def moments_backward(to_mean: Tensor, to_squares: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
    """The gradient at the rows [n > 0, C] from those of their moments, [C] each; added to `out`, if there is one."""
    along, across = to_mean / len(x), 2 * to_squares
    mean = torch.from_numpy(_means(x)).float() if x.device.type == "cpu" else x.mean(0)
    if out is None:
        return scaled(x, mean, across, along)
    # As across * x + (along - across * mean): nothing is made on the way.
    return out.addcmul_(x, across).add_(along - across * mean)


def _means(x: Tensor) -> np.ndarray:
    """Float64 [C] of the columns, on a CPU."""
    sums, mean = _parts(x.shape[1])[:, 0], np.empty(x.shape[1])
    _loops.means(x.numpy(), sums, mean)
    return mean


def scaled(x: Tensor, mean: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """(x - mean) scale + bias, of rows [n, C]."""
    out = pool.empty_like(x)
    if x.device.type == "cpu":
        _loops.scaled(x.numpy(), mean.numpy(), scale.numpy(), bias.numpy(), out.numpy())
        return out
    return torch.sub(x, mean, out=out).mul_(scale).add_(bias)


def batch_norm(x: Tensor, statistics: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Rows [n, C] less the mean, over the deviation, times weight, plus bias.

    Args:
        statistics: [2, C], the mean and the variance of every column.
    """
    return scaled(x, statistics[0], _rate(statistics, eps) * weight, bias)


def batch_norm_backward(
    grad: Tensor, x: Tensor, statistics: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients at the rows alone [n, C], at their statistics [2, C], at the weight and at the bias, [C] each."""
    rate = _rate(statistics, eps)
    to_x, across, along = _scaled_backward(grad, x, statistics[0], rate * weight)
    to_statistics = torch.stack([-along * rate * weight, -0.5 * across * weight * rate**3])
    return to_x, to_statistics, across * rate, along


def _rate(statistics: Tensor, eps: float) -> Tensor:
    return (statistics[1] + eps).rsqrt()


def _scaled_backward(grad: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient at the rows alone [n, C], and of every column the sums of grad (x - mean) and of grad."""
    out = pool.empty_like(x)
    if x.device.type == "cpu":
        sums = _parts(x.shape[1])
        _loops.scaled_backward(grad.numpy(), x.numpy(), mean.numpy(), scale.numpy(), out.numpy(), sums)
        across, along = torch.from_numpy(sums.sum(0)).float()
        return out, across, along
    torch.sub(x, mean, out=out).mul_(grad)
    across = out.sum(0)
    return torch.mul(grad, scale, out=out), across, grad.sum(0)
