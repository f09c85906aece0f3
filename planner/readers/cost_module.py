"""Seconds of what a module of one's own has between its aggregations: functions of elements, joins, norms.

No profile times these kernels yet. They are bound by memory, so each is priced by how often it passes over its rows, at
the pace of a kernel that is profiled; their tasks are marked as unprofiled.
"""

from __future__ import annotations

from gnnplan.planner.costs import OperatorCosts, total
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs, guess, num_written, with_base
from gnnplan.profiles.curves import Estimate

# A copy reads once and writes once. Sums over columns hardly write.
COPIES = {
    "layer_norm": 1.0,
    "layer_norm_grad": 2.0,
    "batch_norm": 1.0,
    "batch_norm_grad": 1.5,
    "maximum": 1.5,
    "maximum_grad": 3.0,
    "product": 1.5,
}


@costs(*COPIES)
def _passes(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(COPIES[op.kind] * num_written(cycle, op, worker)))


@costs("elementwise")
def _elementwise(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost("activation_forward", num_written(cycle, op, worker)))


@costs("elementwise_grad")
def _elementwise_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost("activation_backward", num_written(cycle, op, worker)))


@costs("moments")
def _moments(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Two passes that read."""
    return guess(cost.copy(cycle.num_elements(op.reads[0], worker)))


@costs("moments_grad")
def _moments_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """The moments again, then a pass that reads the rows and writes."""
    num_elements = num_written(cycle, op, worker)
    work = total([cost.copy(num_elements), cost("add", num_elements) if op.has_base else cost.copy(num_elements)])
    return guess(with_base(cycle, op, worker, cost, work))


@costs("statistics", "statistics_grad", "running_statistics")
def _of_columns(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(sum(cycle.num_elements(name, worker) for name in op.reads)))


@costs("concat", "columns", "stack", "turn")
def _copied(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(num_written(cycle, op, worker))


@costs("unstack")
def _copied_in_parts(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(cycle.num_elements(op.reads[0], worker))
