"""Norms of rows, and of columns over the rows of all workers."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.kinds.norms import ROWS_A_WORKER
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import norms, pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.table import Execution, executes


def _vectors(x: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Weight and bias, ones and zeros where there are none."""
    weight = given[0][0] if given else x.new_ones(x.shape[1])
    return weight, given[1][0] if len(given) > 1 else torch.zeros_like(weight)


@executes("layer_norm")
def _layer_norm(c: Context, op: Operator) -> Execution:
    def run(x: Tensor, *given: Tensor) -> Tensor:
        return norms.layer_norm(x, *_vectors(x, given), op.attributes["eps"])

    return run


@executes("layer_norm_grad")
def _layer_norm_grad(c: Context, op: Operator) -> Execution:
    def run(grad: Tensor, x: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        weight, _ = _vectors(x, given)
        to_x, *to_vectors = norms.layer_norm_backward(grad, x, weight, op.attributes["eps"])
        return (to_x, *(each[None] for each in to_vectors)) if given else (to_x,)

    return run


@executes("moments")
def _moments(c: Context, op: Operator) -> Execution:
    at = ROWS_A_WORKER * c.projection.rank

    def run(x: Tensor) -> Tensor:
        out = x.new_zeros(ROWS_A_WORKER * c.projection.num_workers, x.shape[1])
        if len(x):
            out[at], out[at + 1] = norms.moments(x)
            out[at + 2] = len(x)
        return out

    return run


@executes("moments_grad")
def _moments_grad(c: Context, op: Operator) -> Execution:
    """At the rows: the mean's gradient over their number, and twice that of the squares times the deviations."""
    at = ROWS_A_WORKER * c.projection.rank

    def run(grad: Tensor, x: Tensor, *base: Tensor) -> Tensor:
        if not len(x):
            return writable(op, 2, base[0]) if base else pool.empty_like(x)
        out = writable(op, 2, base[0]) if base else None
        return norms.moments_backward(grad[at], grad[at + 1], x, out)

    return run


@executes("statistics")
def _statistics(c: Context, op: Operator) -> Execution:
    def run(moments: Tensor) -> Tensor:
        means, squares, counts = _parts(moments)
        mean, total = _mean(means, counts)
        return torch.stack([mean, (squares + counts * (means - mean) ** 2).sum(0) / total]).float()

    return run


@executes("statistics_grad")
def _statistics_grad(c: Context, op: Operator) -> Execution:
    def run(grad: Tensor, moments: Tensor) -> Tensor:
        means, _, counts = _parts(moments)
        mean, total = _mean(means, counts)
        out = torch.zeros_like(moments)
        out[0::3] = (counts * (grad[0] + 2 * grad[1] * (means - mean)) / total).float()
        out[1::3] = grad[1] / total
        return out

    return run


def _parts(moments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return moments[0::3].double(), moments[1::3].double(), moments[2::3].double()


def _mean(means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Of all rows, and how many there are."""
    total = counts.sum(0)
    return (counts * means).sum(0) / total, total


@executes("running_statistics")
def _running(c: Context, op: Operator) -> Execution:
    rows, momentum = op.attributes["num_rows"], op.attributes["momentum"]

    def run(before: Tensor, statistics: Tensor) -> Tensor:
        now = statistics.clone()
        now[1] *= rows / max(rows - 1, 1)  # torch keeps the variance of a sample
        return before.lerp_(now, momentum)

    return run


@executes("batch_norm")
def _batch_norm(c: Context, op: Operator) -> Execution:
    def run(x: Tensor, statistics: Tensor, *given: Tensor) -> Tensor:
        return norms.batch_norm(x, statistics, *_vectors(x, given), op.attributes["eps"])

    return run


@executes("batch_norm_grad")
def _batch_norm_grad(c: Context, op: Operator) -> Execution:
    def run(grad: Tensor, x: Tensor, statistics: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        weight, _ = _vectors(x, given)
        to_x, to_statistics, *to_vectors = norms.batch_norm_backward(grad, x, statistics, weight, op.attributes["eps"])
        return (to_x, to_statistics, *(each[None] for each in to_vectors)) if given else (to_x, to_statistics)

    return run
