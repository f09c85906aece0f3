"""How a sum in one step is executed."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.table import Execution, executes
from gnnplan.runtime.transfer import Transfer


@executes("direct_sum")
def _direct_sum(c: Context, op: Operator) -> Execution:
    """Everyone adds up in the order of ranks, so that all have the same bits.

    Beside computation the parts are only sent: whoever needs the sum adds them up.
    """
    size = op.attributes["num_workers"]

    def run(x: Tensor) -> Tensor | Transfer:
        rows, width = x.shape
        sent, came = (pool.empty(x.device, size * rows, width) for _ in range(2))
        sent.view(size, rows, width).copy_(x)
        parts, total = c.peers.exchange(came, sent, [rows] * size, [rows] * size), writable(op, 0, x)
        if isinstance(parts, Tensor):
            return _add_up(parts, total)
        return Transfer(total, None, lambda: _add_up(parts.wait(), total))

    return run


def _add_up(parts: Tensor, total: Tensor) -> Tensor:
    rows, width = total.shape
    first, *others = parts.view(-1, rows, width)
    total.copy_(first)
    for part in others:
        total += part
    return total
