"""What functions of elements and joins mean, in plain torch; slopes of functions are autograd's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.program.kinds.functions import OF_OUTPUT
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning
from gnnplan.planner.program.sequential.meanings_norms import gradients

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context

_SLOPES = {
    "relu": lambda out: (out > 0).to(out),
    "tanh": lambda out: 1 - out**2,
    "sigmoid": lambda out: out * (1 - out),
}


def _function(op: Operator, x: Tensor) -> Tensor:
    name, arguments = op.attributes["function"], op.attributes["arguments"]
    if name == "gelu":
        return functional.gelu(x, approximate=arguments[0])
    if name == "elu":
        alpha, scale, input_scale = arguments
        return scale * torch.where(x > 0, x, alpha * torch.expm1(x * input_scale))
    return getattr(torch if name in OF_OUTPUT else functional, name)(x, *arguments)


@meaning("elementwise")
def _elementwise(c: Context, op: Operator, x: Tensor) -> Tensor:
    out = _function(op, x)
    return out if op.inplace is None else x.copy_(out)


@meaning("elementwise_grad")
def _elementwise_grad(c: Context, op: Operator, grad: Tensor, kept: Tensor) -> Tensor:
    name = op.attributes["function"]
    to_x = grad * _SLOPES[name](kept) if name in OF_OUTPUT else gradients(lambda x: _function(op, x), grad, kept)[0]
    return to_x if op.inplace is None else grad.copy_(to_x)


@meaning("product")
def _product(c: Context, op: Operator, x: Tensor, y: Tensor) -> Tensor:
    return x * y


@meaning("concat")
def _concat(c: Context, op: Operator, *parts: Tensor) -> Tensor:
    return torch.cat(parts, 1)


@meaning("columns")
def _columns(c: Context, op: Operator, x: Tensor) -> Tensor:
    return x[:, op.attributes["start"] : op.attributes["stop"]].clone()


@meaning("maximum")
def _maximum(c: Context, op: Operator, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x >= y, x, y)


@meaning("maximum_grad")
def _maximum_grad(c: Context, op: Operator, grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(x >= y, grad, 0.0), torch.where(x >= y, 0.0, grad)


@meaning("unstack")
def _unstack(c: Context, op: Operator, stacked: Tensor) -> tuple[Tensor, ...]:
    return tuple(row.view(op.attributes["width"], -1) for row in stacked)


@meaning("stack")
def _stack(c: Context, op: Operator, *matrices: Tensor) -> Tensor:
    return torch.stack([each.reshape(-1) for each in matrices])
