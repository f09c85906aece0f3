"""The kinds that stand between rows in two precisions, with what they cost."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Dtype, Operator, Value
from gnnplan.planner.readers.cost import costs, guess
from gnnplan.profiles.curves import Estimate

_OF_BOTH = 0.75  # of a float32 copy's bytes: four are read and two written, or the other way about


def _brought(name: str, dtype: Dtype, meaning: str) -> Kind:
    def shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
        of = cycle.values[op.reads[0]]
        return (Value("", of.space, of.width, of.columns, dtype=dtype),)

    return register(
        replace(
            Kind(name, meaning, (Need.ROW,), shape),
            meant_in="gnnplan.planner.techniques.half_precision.meanings",
            executed_in="gnnplan.runtime.techniques.half_precision.operators",
        )
    )


NARROW = _brought("narrow", "bfloat16", "w = r0, every number rounded to a bfloat16")
WIDEN = _brought("widen", "float32", "w = r0 in float32, which holds every bfloat16")


@costs("narrow", "widen")
def _seconds(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(_OF_BOTH * cycle.num_elements(op.reads[0], worker)))
