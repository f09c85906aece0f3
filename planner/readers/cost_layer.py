"""Seconds and bytes of a layer of somebody's own, by what was counted on sample rows when its plan was made.

No profile times it. It is priced as copies of the elements that it reads and writes, and as one matrix product of as
many multiplications, and its tasks are marked as unprofiled. Bytes are those of all tensors that a call makes, as if
none was freed before its end.
"""

from __future__ import annotations

from gnnplan.planner.costs import OperatorCosts, total
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.layer import counted, num_edges
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs, guess, num_written
from gnnplan.planner.readers.temporaries import TEMPORARIES
from gnnplan.profiles.curves import Estimate


@costs("layer", "layer_grad")
def _layer(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    rows = _gathered(cycle, op, worker)
    work = [cost.copy(_counted(cycle, op, worker, "touched") / 2)]
    products, width = _counted(cycle, op, worker, "products"), op.attributes["width"]
    if rows and products:
        work.append(cost("matmul_forward", rows, max(1, round(products / rows / width)), width))
    return guess(total(work))


@costs("on_block")
def _on_block(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(num_written(cycle, op, worker))


def _bytes(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    return [_counted(cycle, op, worker, "num_bytes")]


def _counted(cycle: Cycle, op: Operator, worker: int, name: str) -> int:
    edges, back = num_edges(cycle, op, worker), op.kind == "layer_grad"
    return counted(op.attributes, name, _gathered(cycle, op, worker), edges, back=back)


def _gathered(cycle: Cycle, op: Operator, worker: int) -> int:
    return cycle.spaces[cycle.blocks[op.attributes["block"]].column].sizes[worker]


TEMPORARIES |= {"layer": _bytes, "layer_grad": _bytes}
