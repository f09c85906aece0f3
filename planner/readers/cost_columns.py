"""Seconds of rows turned into columns, and back."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.columns import members_of
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import Collective, costs, in_proportion, num_written, register_collective
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.operators import PACKED_SLICES


@costs("pack_columns", "unpack_columns")
def _repack(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """By the pieces of a row that stay together: as many as those of more rows that were cut as the timed ones were."""
    x = cycle.values[op.reads[0]]
    if x.layout == "csr" or not cost.has("pack_columns"):
        return cost.copy(num_written(cycle, op, worker))
    pieces = members_of(op) * op.attributes["heads"] / PACKED_SLICES  # of a row, over those of a timed one
    return cost("pack_columns", cycle.num_rows(x.name, worker) * pieces, x.width / pieces)


def _transposed_bytes(cycle: Cycle, op: Operator) -> np.ndarray:
    """int64 [W, W]: bytes from worker p to worker q; what stays where it is does not travel.

    NeutronTP, section 3.2: V * D * (N - 1) / N elements in all, where rows and columns are shared out evenly.
    """
    x, back = cycle.values[op.reads[0]], op.attributes["back"]
    rows = cycle.routes[op.attributes["route"]].counts.diagonal()
    widths = np.array([stop - start for start, stop in op.attributes["columns"]], np.int64)
    sent_bytes = np.array([cycle.num_bytes(x.name, worker) for worker in cycle.workers], np.int64)
    group = np.arange(len(rows)) // members_of(op)
    parts = np.where(group[:, None] == group, rows if back else widths, 0)
    found = in_proportion(parts, sent_bytes)
    np.fill_diagonal(found, 0)
    return found


def _transposed(cycle: Cycle, op: Operator) -> tuple[np.ndarray, np.ndarray]:
    """Sums of `_transposed_bytes`, of what is sent and of what comes: float64 [W] each."""
    route, width = cycle.routes[op.attributes["route"]], cycle.values[op.reads[0]].width
    own, whole = (np.array(cycle.spaces[name].sizes) for name in (route.source, route.target))
    slices = np.array([stop - start for start, stop in op.attributes["columns"]]) / max(width, 1)
    leaving = [1 - slices, 1 - own / np.maximum(whole, 1)]  # of rows the columns of others, of columns their rows
    sent, received = (np.array([cycle.num_bytes(v, w) for w in cycle.workers]) for v in (op.reads[0], op.writes[0]))
    there, back = reversed(leaving) if op.attributes["back"] else leaving
    return sent * there, received * back


register_collective(
    "transpose",
    Collective(
        _transposed_bytes,
        lambda network, num_bytes: network.all_to_all(num_bytes),
        lambda network, num_bytes: network.all_to_all_processor(num_bytes),
        moved=_transposed,
    ),
)
