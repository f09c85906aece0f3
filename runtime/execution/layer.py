"""A layer of somebody's own: their code, on the rows that this worker gathers."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


@executes("layer")
def _layer(c: Context, op: Operator) -> Execution:
    layer = c.own_layer(op)
    return lambda *reads: tuple(map(_pooled, layer.forward(*reads)))


@executes("layer_grad")
def _layer_grad(c: Context, op: Operator) -> Execution:
    layer, of, wanted = c.own_layer(op), op.attributes["grads_of"], op.attributes["wanted"]
    return lambda *reads: tuple(map(_pooled, layer.backward(*reads, of=of, wanted=wanted)))


@executes("on_block")
def _on_block(c: Context, op: Operator) -> Execution:
    return _pooled


def _pooled(made: Tensor) -> Tensor:
    """A copy that lies where all values of a program do."""
    return pool.empty_like(made).copy_(made)
