"""Seconds of the stages of a mini-batch: they stand in the program, as they were measured on its batches."""

from __future__ import annotations

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs
from gnnplan.profiles.curves import Estimate


@costs("make_batch", "move_batch", "train_batch")
def _stage(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return Estimate(op.attributes["seconds"][worker], op.attributes["spread_s"][worker], unprofiled=False)
