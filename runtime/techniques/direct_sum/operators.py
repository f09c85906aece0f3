"""How a sum in one step is executed."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.table import Execution, executes
from gnnplan.runtime.execution.travel import finished


@executes("direct_sum")
def _direct_sum(c: Context, op: Operator) -> Execution:
    """Everyone adds up in the order of ranks, so that all have the same bits."""
    size = op.attributes["num_workers"]

    def run(x: Tensor) -> Tensor:
        rows, width = x.shape
        sent, came = (pool.empty(x.device, size * rows, width) for _ in range(2))
        sent.view(size, rows, width).copy_(x)
        parts = finished(c.peers.exchange(came, sent, [rows] * size, [rows] * size)).view(size, rows, width)
        total = writable(op, 0, x).copy_(parts[0])
        for part in parts[1:]:
            total += part
        return total

    return run
