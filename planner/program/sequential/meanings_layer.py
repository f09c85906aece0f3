"""What a layer of somebody's own means: their code, on the rows of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("layer")
def _layer(c: Context, op: Operator, *reads: Tensor) -> tuple[Tensor, ...]:
    return c.own_layer(op).forward(*reads)


@meaning("layer_grad")
def _layer_grad(c: Context, op: Operator, *reads: Tensor) -> tuple[Tensor, ...]:
    return c.own_layer(op).backward(*reads, of=op.attributes["grads_of"], wanted=op.attributes["wanted"])


@meaning("on_block")
def _on_block(c: Context, op: Operator, x: Tensor) -> Tensor:
    assert len(x) == c.num_rows(c.cycle.values[op.writes[0]].space), "levels have other edges"
    return x.clone()
