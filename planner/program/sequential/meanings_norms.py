"""What norms mean, in plain torch; their gradients are autograd's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.program.kinds.norms import ROWS_A_WORKER
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning, plus

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


def gradients(function: Callable[..., Tensor], grad: Tensor, *reads: Tensor) -> tuple[Tensor, ...]:
    """The gradients at all reads of a function's result."""
    with torch.enable_grad():
        leaves = [each.detach().clone().requires_grad_() for each in reads]
        return torch.autograd.grad(function(*leaves), leaves, grad.detach())


def _layer_normed(op: Operator) -> Callable[..., Tensor]:
    def of(x: Tensor, *vectors: Tensor) -> Tensor:
        weight, bias = (each[0] for each in vectors) if vectors else (None, None)
        return functional.layer_norm(x, x.shape[1:], weight, bias, op.attributes["eps"])

    return of


@meaning("layer_norm")
def _layer_norm(c: Context, op: Operator, x: Tensor, *vectors: Tensor) -> Tensor:
    return _layer_normed(op)(x, *vectors)


@meaning("layer_norm_grad")
def _layer_norm_grad(c: Context, op: Operator, grad: Tensor, x: Tensor, *weight: Tensor) -> tuple[Tensor, ...]:
    vectors = (*weight, torch.zeros_like(weight[0])) if weight else ()
    return gradients(_layer_normed(op), grad, x, *vectors)


def _moments_of(x: Tensor, worker: int, num_workers: int) -> Tensor:
    out = x.new_zeros(ROWS_A_WORKER * num_workers, x.shape[1])
    if not len(x):
        return out
    mean = x.mean(0)
    mine = torch.stack([mean, ((x - mean) ** 2).sum(0), x.new_full(mean.shape, len(x))])
    return torch.cat([out[: ROWS_A_WORKER * worker], mine, out[ROWS_A_WORKER * (worker + 1) :]])


@meaning("moments")
def _moments(c: Context, op: Operator, x: Tensor) -> Tensor:
    return _moments_of(x, c.worker, c.cycle.num_workers)


@meaning("moments_grad")
def _moments_grad(c: Context, op: Operator, grad: Tensor, x: Tensor, *base: Tensor) -> Tensor:
    if not len(x):
        return plus(op, torch.zeros_like(x), base)
    (to_x,) = gradients(lambda rows: _moments_of(rows, c.worker, c.cycle.num_workers), grad, x)
    return plus(op, to_x, base)


def _merged(moments: Tensor) -> Tensor:
    means, squares, counts = moments[0::3], moments[1::3], moments[2::3].detach()
    total = counts.sum(0)
    mean = (counts * means).sum(0) / total
    return torch.stack([mean, (squares + counts * (means - mean) ** 2).sum(0) / total])


@meaning("statistics")
def _statistics(c: Context, op: Operator, moments: Tensor) -> Tensor:
    return _merged(moments)


@meaning("statistics_grad")
def _statistics_grad(c: Context, op: Operator, grad: Tensor, moments: Tensor) -> Tensor:
    return gradients(_merged, grad, moments)[0]


@meaning("running_statistics")
def _running(c: Context, op: Operator, before: Tensor, statistics: Tensor) -> Tensor:
    rows, momentum = op.attributes["num_rows"], op.attributes["momentum"]
    now = statistics * torch.tensor([[1.0], [rows / max(rows - 1, 1)]], dtype=statistics.dtype)
    return before.lerp_(now, momentum)


def _batch_normed(op: Operator) -> Callable[..., Tensor]:
    def of(x: Tensor, statistics: Tensor, *vectors: Tensor) -> Tensor:
        out = (x - statistics[0]) / (statistics[1] + op.attributes["eps"]).sqrt()
        return out * vectors[0] + vectors[1] if vectors else out

    return of


@meaning("batch_norm")
def _batch_norm(c: Context, op: Operator, x: Tensor, statistics: Tensor, *vectors: Tensor) -> Tensor:
    return _batch_normed(op)(x, statistics, *vectors)


@meaning("batch_norm_grad")
def _batch_norm_grad(
    c: Context, op: Operator, grad: Tensor, x: Tensor, statistics: Tensor, *weight: Tensor
) -> tuple[Tensor, ...]:
    vectors = (*weight, torch.zeros_like(weight[0])) if weight else ()
    return gradients(_batch_normed(op), grad, x, statistics, *vectors)
