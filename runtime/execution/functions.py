"""Functions of single elements, and joins of values."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.functions import FUNCTIONS
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


@executes("elementwise")
def _elementwise(c: Context, op: Operator) -> Execution:
    apply, arguments = FUNCTIONS[op.attributes["function"]].apply, op.attributes["arguments"]

    def run(x: Tensor) -> Tensor:
        out = x if op.inplace is not None else pool.empty_like(x)
        apply(x, out, *arguments)
        return out

    return run


@executes("elementwise_grad")
def _elementwise_grad(c: Context, op: Operator) -> Execution:
    apply, arguments = FUNCTIONS[op.attributes["function"]].apply_slope, op.attributes["arguments"]

    def run(grad: Tensor, kept: Tensor) -> Tensor:
        out = grad if op.inplace is not None else pool.empty_like(grad)
        apply(grad, kept, out, *arguments)
        return out

    return run


@executes("product")
def _product(c: Context, op: Operator) -> Execution:
    return lambda x, y: torch.mul(x, y, out=pool.empty_like(x))


@executes("concat")
def _concat(c: Context, op: Operator) -> Execution:
    width = sum(op.attributes["widths"])

    def run(*parts: Tensor) -> Tensor:
        return torch.cat(parts, 1, out=pool.empty(parts[0].device, len(parts[0]), width))

    return run


@executes("columns")
def _columns(c: Context, op: Operator) -> Execution:
    start, stop = op.attributes["start"], op.attributes["stop"]
    return lambda x: pool.empty(x.device, len(x), stop - start).copy_(x[:, start:stop])


@executes("maximum")
def _maximum(c: Context, op: Operator) -> Execution:
    return lambda x, y: torch.maximum(x, y, out=pool.empty_like(x))


@executes("maximum_grad")
def _maximum_grad(c: Context, op: Operator) -> Execution:
    def run(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        first, second = pool.empty_like(grad), pool.empty_like(grad)
        torch.ge(x, y, out=first).mul_(grad)
        return first, torch.sub(grad, first, out=second)

    return run


@executes("unstack")
def _unstack(c: Context, op: Operator) -> Execution:
    width = op.attributes["width"]
    return lambda stacked: tuple(row.view(width, -1) for row in stacked)


@executes("stack")
def _stack(c: Context, op: Operator) -> Execution:
    def run(*matrices: Tensor) -> Tensor:
        out = pool.empty(matrices[0].device, len(matrices), matrices[0].numel())
        return torch.stack([each.view(-1) for each in matrices], out=out)

    return run
