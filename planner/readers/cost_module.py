"""Seconds of what a module of one's own has between its aggregations: norms, functions of elements, joins.

Profiles time norms, unless they are older than that. What they do not time is bound by memory: it is priced by how
often it passes over its rows, at the pace of a kernel that is profiled, and its tasks are marked as unprofiled.
"""

from __future__ import annotations

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs, guess, in_float32, num_written, with_base
from gnnplan.profiles.curves import Estimate

# A copy reads once and writes once. Sums over columns hardly write.
COPIES = {"maximum": 1.5, "maximum_grad": 3.0, "product": 1.5}
NORMS = {  # by kind the table that times it, and its passes where a profile has none
    "layer_norm": ("layer_norm", 1.0),
    "layer_norm_grad": ("layer_norm_backward", 2.0),
    "moments": ("moments", 1.0),
    "moments_grad": ("moments_backward", 2.0),
    "batch_norm": ("batch_norm", 1.0),
    "batch_norm_grad": ("batch_norm_backward", 1.5),
}


@costs(*COPIES)
def _passes(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(COPIES[op.kind] * num_written(cycle, op, worker)))


@costs(*NORMS)
def _norm(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    table, copies = NORMS[op.kind]
    read = 1 if op.kind == "moments_grad" else 0  # after the gradient of the moments; of others all rows are as many
    num_elements = in_float32(cycle, op.reads[read], worker)
    work = cost(table, num_elements) if cost.has(table) else guess(cost.copy(copies * num_elements))
    return with_base(cycle, op, worker, cost, work)


@costs("elementwise")
def _elementwise(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost("activation_forward", num_written(cycle, op, worker)))


@costs("elementwise_grad")
def _elementwise_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost("activation_backward", num_written(cycle, op, worker)))


@costs("statistics", "statistics_grad", "running_statistics")
def _of_columns(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(sum(cycle.num_elements(name, worker) for name in op.reads)))


@costs("concat", "columns", "stack")
def _copied(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(num_written(cycle, op, worker))
