"""The kind that puts a chunk's rows where they belong, with what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.readers.cost import costs, with_base
from gnnplan.profiles.curves import Estimate

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _put_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x = cycle.values[op.reads[0]]
    return (Value("", cycle.indexes[op.attributes["index"]].source, x.width, x.columns),)


def _put_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    """What was put takes its rows of the gradient. The base gets all of it, and nobody takes these rows out of that."""
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("take", grad, index=op.attributes["index"]))
    d.pass_base(op, grad)


PUT = register(
    Kind(
        "put",
        "w = r0 at the rows that the index names, elsewhere its base; without one these rows are still to be put",
        (Need.ROW,),
        _put_shape,
        _put_derive,
        takes_base=True,
        meant_in="gnnplan.planner.techniques.destination_chunks.meanings",
        executed_in="gnnplan.runtime.techniques.destination_chunks.operators",
    )
)


@costs("put")
def _put(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return with_base(cycle, op, worker, cost, cost.copy(cycle.num_elements(op.reads[0], worker)))
