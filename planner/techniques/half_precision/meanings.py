"""What a change of precision means: the sequential executor rounds whatever is written as a bfloat16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("narrow")
def _narrow(c: Context, op: Operator, x: Tensor) -> Tensor:
    return x.clone()


@meaning("widen")
def _widen(c: Context, op: Operator, x: Tensor) -> Tensor:
    return x.clone()
