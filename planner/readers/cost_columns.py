"""Seconds of rows turned into columns, and back."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import Collective, costs, num_written, register_collective
from gnnplan.profiles.curves import Estimate


@costs("pack_columns", "unpack_columns")
def _repack(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(num_written(cycle, op, worker))


def _transposed_bytes(cycle: Cycle, op: Operator) -> np.ndarray:
    """int64 [W, W]: bytes from worker p to worker q; what stays where it is does not travel.

    NeutronTP, section 3.2: V * D * (N - 1) / N elements in all, where rows and columns are shared out evenly.
    """
    x, back = cycle.values[op.reads[0]], op.attributes["back"]
    rows = cycle.routes[op.attributes["route"]].counts[:, 0]
    widths = np.array([stop - start for start, stop in op.attributes["columns"]], np.int64)
    sent_bytes = np.array([cycle.num_bytes(x.name, worker) for worker in cycle.workers], np.int64)
    parts = rows if back else widths
    until = np.cumsum(np.broadcast_to(parts, (len(rows), len(rows))), 1) * sent_bytes[:, None] // max(parts.sum(), 1)
    found = np.diff(until, axis=1, prepend=0)
    np.fill_diagonal(found, 0)
    return found


register_collective(
    "transpose",
    Collective(
        _transposed_bytes,
        lambda network, num_bytes: network.all_to_all(num_bytes),
        lambda network, num_bytes: network.all_to_all_processor(num_bytes),
        is_exchange=True,
    ),
)
