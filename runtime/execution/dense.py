"""Products with parameters, and what is done to single elements."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.activation import activate_, activate_backward_, dropout_key
from gnnplan.profiles.kernels.dense import matmul, transposed
from gnnplan.profiles.kernels.halves import HALF, column_sums, gram_of_halves
from gnnplan.profiles.kernels.heads import average_heads, spread_heads
from gnnplan.profiles.kernels.sparse import spmm, spmm_add_
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import Execution, executes


def writable(op: Operator, read: int, tensor: Tensor) -> Tensor:
    """What a read's storage may be overwritten by: itself where it is written in place, else a copy."""
    if op.inplace == read:
        return tensor
    return pool.empty_like(tensor).copy_(tensor) if tensor.is_floating_point() else tensor.clone()


@executes("multiply")
def _multiply(c: Context, op: Operator) -> Execution:
    back, has_base, last = op.attributes.get("back"), op.has_base, len(op.reads) - 1

    def sparse(x: SparseRows, weight: Tensor, *base: Tensor) -> Tensor:
        right = weight if back else transposed(weight)
        return spmm_add_(writable(op, last, base[0]), x.rows, right) if has_base else spmm(x.rows, right)

    def run(x: Tensor | SparseRows, weight: Tensor, *base: Tensor) -> Tensor:
        if isinstance(x, SparseRows):
            return sparse(x, weight, *base)
        right = weight if back else weight.t()
        return writable(op, last, base[0]).addmm_(x, right) if has_base else matmul(x, right)

    return run


@executes("gram")
def _gram(c: Context, op: Operator) -> Execution:
    def run(x: Tensor | SparseRows, y: Tensor | SparseRows) -> Tensor:
        if isinstance(x, SparseRows):
            assert isinstance(y, Tensor), "of two sparse factors there is no kernel"
            return spmm(x.columns, y)
        if isinstance(y, SparseRows):
            return transposed(spmm(y.columns, x))
        return gram_of_halves(x, y) if x.dtype == HALF else matmul(x.t(), y)

    return run


def summed(x: Tensor) -> Tensor:
    """float32 [1, width]: sums of columns."""
    return column_sums(x) if x.dtype == HALF else x.sum(0, keepdim=True)


@executes("column_sum")
def _column_sum(c: Context, op: Operator) -> Execution:
    return summed


@executes("activate")
def _activate(c: Context, op: Operator) -> Execution:
    relu, dropout, layer = (op.attributes[name] for name in ("relu", "dropout", "layer"))
    vertices = c.ids_on_device(c.cycle.values[op.writes[0]].space) if dropout else None

    def run(z: Tensor, bias: Tensor) -> Tensor:
        key = dropout_key(c.cycle.seed, c.epoch, layer) if dropout else 0
        return activate_(writable(op, 0, z), bias[0], relu=relu, dropout=dropout, key=key, vertices=vertices)

    return run


@executes("activate_grad")
def _activate_grad(c: Context, op: Operator) -> Execution:
    dropout = op.attributes["dropout"]

    def run(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        to_z = activate_backward_(writable(op, 0, grad), out, relu=True, dropout=dropout)
        return to_z, summed(to_z)

    return run


@executes("dropout")
def _dropout(c: Context, op: Operator) -> Execution:
    value, probability, layer = c.cycle.values[op.reads[0]], op.attributes["probability"], op.attributes["layer"]
    start, _ = value.columns[0] if value.columns else (0, value.width)

    def run(x: Tensor | SparseRows) -> Tensor | SparseRows:
        key = dropout_key(c.cycle.seed, c.epoch, layer)
        if isinstance(x, SparseRows):
            return x.dropped(c.ids_on_device(value.space), key, probability)
        out, nothing, vertices = (
            pool.empty_like(x).copy_(x),
            x.new_zeros(x.shape[1], dtype=torch.float32),
            c.ids_on_device(value.space),
        )
        at = (start, value.width)
        return activate_(out, nothing, relu=False, dropout=probability, key=key, vertices=vertices, columns=at)

    return run


@executes("add")
def _add(c: Context, op: Operator) -> Execution:
    first, second = op.attributes["factors"]

    def run(x: Tensor, y: Tensor) -> Tensor:
        if op.inplace == 1:
            return _times(y, second).add_(x, alpha=first)
        return _times(writable(op, 0, x), first).add_(y, alpha=second)

    return run


def _times(x: Tensor, factor: float) -> Tensor:
    """In place; once is nothing to do."""
    return x if factor == 1 else x.mul_(factor)


@executes("scale")
def _scale(c: Context, op: Operator) -> Execution:
    return lambda x: writable(op, 0, x).mul_(op.attributes["factor"])


@executes("average_heads")
def _average_heads(c: Context, op: Operator) -> Execution:
    return lambda x: average_heads(x, op.attributes["heads"])


@executes("spread_heads")
def _spread_heads(c: Context, op: Operator) -> Execution:
    return lambda x: spread_heads(x, op.attributes["heads"])
