"""Values of the same rows side by side, and the greater of two: what jumping knowledge joins layers with.

Values of several levels may meet. The result has the rows of the highest one.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _concat_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    values = [cycle.values[name] for name in op.reads]
    space = cycle.values[op.reads[op.attributes["rows_of"]]].space
    return (Value("", space, sum(value.width for value in values)),)


def _concat_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    bounds = pairwise(accumulate(op.attributes["widths"], initial=0))
    for name, (start, stop) in zip(op.reads, bounds, strict=True):
        d.add(name, partial(d.emit, "columns", grad, start=start, stop=stop))


def _columns_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    of = cycle.values[op.reads[0]]
    assert 0 <= op.attributes["start"] <= op.attributes["stop"] <= of.width
    return (Value("", of.space, op.attributes["stop"] - op.attributes["start"]),)


CONCAT = register(
    Kind(
        "concat",
        "w = all reads side by side, of these `widths`; the rows are those of the read `rows_of`",
        (Need.ROW,),
        _concat_shape,
        _concat_derive,
        by_row=True,
    )
)
COLUMNS = register(
    Kind("columns", "w = columns `start` to `stop` of r0", (Need.ROW,), _columns_shape, by_row=True),
)


def _maximum_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    both = d.emit_all("maximum_grad", grad, *op.reads)
    for name, to in zip(op.reads, both, strict=True):
        d.give(name, to)


MAXIMUM = register(
    Kind(
        "maximum",
        "w = the greater of r0 and r1, element by element; the gradient of equal ones is the first one's; the rows are "
        "those of the read `rows_of`",
        (Need.ROW,),
        lambda cycle, op: like(op.attributes["rows_of"])(cycle, op),
        _maximum_derive,
        by_row=True,
        by_column=True,
    )
)
MAXIMUM_GRAD = register(
    Kind(
        "maximum_grad",
        "w0, w1 = r0 where r1 is the greater, and where r2 is",
        (Need.ROW,),
        lambda cycle, op: like()(cycle, op) * 2,
    )
)
