"""How rows are put."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.table import Execution, executes


@executes("put")
def _put(c: Context, op: Operator) -> Execution:
    """Consecutive rows are copied, others scattered. Without a base nothing is cleared, for all rows are put yet."""
    index, last = op.attributes["index"], len(op.reads) - 1
    num_rows, is_view = c.num_rows(c.cycle.indexes[index].source), c.cycle.indexes[index].is_view
    start, stop = c.view(index) if is_view else (0, 0)
    rows = None if is_view else c.rows(index)

    def run(x: Tensor, *base: Tensor) -> Tensor:
        out = writable(op, last, base[0]) if base else pool.empty(x.device, num_rows, x.shape[1])
        if rows is None:
            out[start:stop].copy_(x)
            return out
        return out.index_copy_(0, rows, x)

    return run
