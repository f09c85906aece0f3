"""What it means to put rows, in plain torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("put")
def _put(c: Context, op: Operator, x: Tensor, *base: Tensor) -> Tensor:
    """Rows that nobody puts are no numbers, so that who reads them is noticed."""
    if not base:
        num_rows = c.num_rows(c.cycle.indexes[op.attributes["index"]].source)
        out = x.new_full((num_rows, x.shape[1]), math.nan)
    else:
        out = base[0] if op.inplace is not None else base[0].clone()
    out[torch.as_tensor(c.rows(op.attributes["index"]))] = x
    return out
