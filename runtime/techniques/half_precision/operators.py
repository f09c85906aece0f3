"""How rows change their precision."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.halves import HALF
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


@executes("narrow")
def _narrow(c: Context, op: Operator) -> Execution:
    return _copied_to(HALF)


@executes("widen")
def _widen(c: Context, op: Operator) -> Execution:
    return _copied_to(torch.float32)


def _copied_to(dtype: torch.dtype) -> Execution:
    def run(x: Tensor) -> Tensor:
        return pool.empty(x.device, *x.shape, dtype=dtype).copy_(x)

    return run
