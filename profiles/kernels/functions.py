"""Functions of single elements, written where the caller says: no tensor is made on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


@dataclass(frozen=True)
class Function:
    """A function and its slope.

    Args:
        apply: `apply(x, out, *arguments)`; out may be x.
        apply_slope: `apply_slope(grad, kept, out, *arguments)`; out may be grad. What was kept is the argument x, or
            the result where `gnnplan.planner.program.kinds.functions.OF_OUTPUT` has the function.
    """

    apply: Callable[..., Any]
    apply_slope: Callable[..., Any]


def _threshold(grad: Tensor, kept: Tensor, out: Tensor) -> None:
    _aten.threshold_backward.grad_input(grad, kept, 0, grad_input=out)


FUNCTIONS: Mapping[str, Function] = {
    "relu": Function(lambda x, out: torch.clamp_min(x, 0, out=out), _threshold),
    "tanh": Function(
        lambda x, out: torch.tanh(x, out=out),
        lambda grad, y, out: _aten.tanh_backward.grad_input(grad, y, grad_input=out),
    ),
    "sigmoid": Function(
        lambda x, out: torch.sigmoid(x, out=out),
        lambda grad, y, out: _aten.sigmoid_backward.grad_input(grad, y, grad_input=out),
    ),
    "leaky_relu": Function(
        lambda x, out, slope: _aten.leaky_relu.out(x, slope, out=out),
        lambda grad, x, out, slope: _aten.leaky_relu_backward.grad_input(grad, x, slope, False, grad_input=out),
    ),
    "elu": Function(
        lambda x, out, *scales: _aten.elu.out(x, *scales, out=out),
        lambda grad, x, out, *scales: _aten.elu_backward.grad_input(grad, *scales, False, x, grad_input=out),
    ),
    "gelu": Function(
        lambda x, out, how: _aten.gelu.out(x, approximate=how, out=out),
        lambda grad, x, out, how: _aten.gelu_backward.grad_input(grad, x, approximate=how, grad_input=out),
    ),
    "silu": Function(
        lambda x, out: _aten.silu.out(x, out=out),
        lambda grad, x, out: _aten.silu_backward.grad_input(grad, x, grad_input=out),
    ),
    "softplus": Function(
        lambda x, out, beta, threshold: _aten.softplus.out(x, beta, threshold, out=out),
        lambda grad, x, out, *how: _aten.softplus_backward.grad_input(grad, x, *how, grad_input=out),
    ),
    "hardtanh": Function(
        lambda x, out, low, high: _aten.hardtanh.out(x, low, high, out=out),
        lambda grad, x, out, low, high: _aten.hardtanh_backward.grad_input(grad, x, low, high, grad_input=out),
    ),
}
"""By torch's names: those whose derivative torch can write where it is told to."""
