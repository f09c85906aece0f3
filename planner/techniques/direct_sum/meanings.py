"""What a sum in one step means among all workers, in plain torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import COLLECTIVES, meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("direct_sum", COLLECTIVES)
def _direct_sum(c: Context, op: Operator, each: list[Tensor]) -> list[Tensor]:
    total = torch.stack(each).sum(0)
    return [x.copy_(total) if op.inplace is not None else total.clone() for x in each]
