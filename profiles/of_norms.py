"""Norms of rows and of columns, as timed calls over numbers of elements."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gnnplan.profiles.kernels import norms
from gnnplan.profiles.operands import dense

Shape = tuple[float, ...]
Make = Callable[[Shape, torch.device], Callable[[], object]]
_COLUMNS = 128  # norms depend on the element count
_EPS = 1e-5


def _rows(shape: Shape, device: torch.device, number: int) -> list[torch.Tensor]:
    return [dense(device, max(1, int(shape[0]) // _COLUMNS), _COLUMNS) for _ in range(number)]


def _vectors(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return dense(device, _COLUMNS), dense(device, _COLUMNS)


def _statistics(device: torch.device) -> torch.Tensor:
    return dense(device, 2, _COLUMNS).abs()


def _layer_norm(shape: Shape, device: torch.device):
    (x,), (weight, bias) = _rows(shape, device, 1), _vectors(device)
    return lambda: norms.layer_norm(x, weight, bias, _EPS)


def _layer_norm_backward(shape: Shape, device: torch.device):
    (grad, x), (weight, _) = _rows(shape, device, 2), _vectors(device)
    return lambda: norms.layer_norm_backward(grad, x, weight, _EPS)


def _moments(shape: Shape, device: torch.device):
    (x,) = _rows(shape, device, 1)
    return lambda: norms.moments(x)


def _moments_backward(shape: Shape, device: torch.device):
    (x, out), (to_mean, to_squares) = _rows(shape, device, 2), _vectors(device)
    return lambda: norms.moments_backward(to_mean, to_squares, x, out)


def _batch_norm(shape: Shape, device: torch.device):
    (x,), statistics, (weight, bias) = _rows(shape, device, 1), _statistics(device), _vectors(device)
    return lambda: norms.batch_norm(x, statistics, weight, bias, _EPS)


def _batch_norm_backward(shape: Shape, device: torch.device):
    (grad, x), statistics, (weight, _) = _rows(shape, device, 2), _statistics(device), _vectors(device)
    return lambda: norms.batch_norm_backward(grad, x, statistics, weight, _EPS)


OF_NORMS: dict[str, Make] = {
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "moments": _moments,
    "moments_backward": _moments_backward,
    "batch_norm": _batch_norm,
    "batch_norm_backward": _batch_norm_backward,
}
