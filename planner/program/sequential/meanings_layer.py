"""What a layer of somebody's own means: their code, on the rows of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("layer")
def _layer(c: Context, op: Operator, *reads: Tensor) -> Tensor:
    return c.own_layer(op).forward(*reads)


@meaning("layer_grad")
def _layer_grad(c: Context, op: Operator, grad: Tensor, *reads: Tensor) -> tuple[Tensor, ...]:
    return c.own_layer(op).backward(grad, op.attributes["wanted"], *reads)
