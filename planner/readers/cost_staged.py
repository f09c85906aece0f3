"""What it takes to have blocks on a GPU for one operator, where they lie in memory of the host."""

from __future__ import annotations

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.outside import is_staged
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.block_bytes import staged_bytes
from gnnplan.profiles.curves import Estimate


class StagingCosts:
    """Of one cycle. Copying and computing take turns, so both count."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle, self._is_used = cycle, is_staged(cycle)

    def __call__(self, op: Operator, worker: int, costs: OperatorCosts) -> Estimate:
        """Seconds of a worker's operator with its blocks."""
        if not self._is_used:
            return ZERO
        num_bytes = sum(staged_bytes(self._cycle, op, worker))
        return costs("h2d_pinned", num_bytes) if num_bytes else ZERO
