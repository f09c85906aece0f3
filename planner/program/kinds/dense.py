"""Products with parameters. Parameters stand as torch has them: [output width, input width]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _multiply_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x, weight = (cycle.values[name] for name in op.reads[:2])
    width = weight.width if op.attributes.get("back") else cycle.spaces[weight.space].sizes[0]
    return (Value("", x.space, width),)


def _multiply_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (x, weight) = grads, op.reads[:2]
    assert grad
    back = bool(op.attributes.get("back"))
    d.add(weight, lambda: d.emit("gram", *((x, grad) if back else (grad, x))))
    d.add(x, lambda: d.emit("multiply", grad, weight, **({} if back else {"back": True})))
    d.pass_base(op, grad)


def _gram_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    grad, x = (cycle.values[name] for name in op.reads)
    return (Value("", parameter_space(grad.width), x.width),)


MULTIPLY = register(
    Kind(
        "multiply",
        "w = r0 @ r1.T, with `back` r0 @ r1",
        (Need.ROW, Need.WHOLE, Need.ROW),
        _multiply_shape,
        _multiply_derive,
        by_row=True,
        takes_base=True,
    )
)
GRAM = register(Kind("gram", "w = r0.T @ r1, a parameter's gradient", (Need.OWN,), _gram_shape))
