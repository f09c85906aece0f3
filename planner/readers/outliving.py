"""Bytes that operators hold from one epoch to the next beside cells: copies of what they send, receive or average."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator


def outliving_bytes(cycle: Cycle, worker: int, *, on_cuda: bool = False) -> int:
    """Bytes on a worker's device, at most.

    An operator with `copies` holds so many of all that it reads and writes. They lie in the host's memory, so they are
    none of a GPU's. An operator with `waiting` makes batches, of which so many more may be there. A step with `mean`
    holds the mean of the parameters. Operators of one key in several programs are one operator.
    """
    operators = {op.key: op for op in cycle.operators_of_epochs()}
    return sum(_of_operator(cycle, op, worker, on_cuda) for op in operators.values())


def _of_operator(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> int:
    copies = 0 if on_cuda else op.attributes.get("copies", 0)
    held = copies * sum(cycle.num_bytes(name, worker) for name in (*op.reads, *op.writes)) if copies else 0
    averaged = op.attributes["parameters"] if op.attributes.get("mean") else ()
    if waiting := op.attributes.get("waiting"):
        held += waiting[worker] * sum(cycle.num_bytes(name, worker) for name in op.writes)
    return held + sum(cycle.num_bytes(name, worker) for name in averaged)
