"""Weights of which many stand in one parameter.

A convolution with R relations has [R, m, n] in one parameter, of inputs m wide; its matrix has R rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _unstack_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    stacked, width = cycle.values[op.reads[0]], op.attributes["width"]
    assert width > 0
    assert stacked.width % width == 0, (stacked.width, width)
    (count, *_) = cycle.spaces[stacked.space].sizes
    return (Value("", parameter_space(width), stacked.width // width),) * count


def _unstack_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    given = tuple(grad for grad in grads if grad)
    assert len(given) == len(grads), "every weight of a stack is used"
    d.add(op.reads[0], lambda: d.emit("stack", *given))


def _stack_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    first = cycle.values[op.reads[0]]
    (rows, *_) = cycle.spaces[first.space].sizes
    return (Value("", parameter_space(len(op.reads)), rows * first.width),)


UNSTACK = register(
    Kind(
        "unstack",
        "w_i = row i of r0 as a matrix [`width`, n], where it lies",
        (Need.WHOLE,),
        _unstack_shape,
        _unstack_derive,
    )
)
STACK = register(Kind("stack", "w = the reads as rows, one below the other", (Need.WHOLE,), _stack_shape))
