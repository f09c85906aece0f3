"""Operators on single elements, rows and heads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _activate_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (z, bias), attributes = grads, op.reads, op.attributes
    assert grad
    if not attributes["relu"] and not attributes["dropout"]:
        d.add(bias, lambda: d.emit("column_sum", grad))
        d.give(z, grad)
        return
    assert attributes["relu"], "what was dropped is told by zeros, which only ReLU leaves alone"
    to_z, to_bias = d.emit_all("activate_grad", grad, op.writes[0], dropout=attributes["dropout"])
    d.give(z, to_z)
    d.give(bias, to_bias)


def _column_sum_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return (Value("", parameter_space(1), cycle.values[op.reads[0]].width),)


def _activate_grad_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return (*like()(cycle, op), *_column_sum_shape(cycle, op))


ACTIVATE = register(
    Kind(
        "activate",
        "w = dropout(relu(r0 + r1)), relu and dropout where asked for; dropout is a function of (seed, epoch, layer, "
        "vertex, feature)",
        (Need.ROW, Need.WHOLE),
        like(),
        _activate_derive,
        by_row=True,
        varies=True,
        inplace=(0,),
    )
)
ACTIVATE_GRAD = register(
    Kind(
        "activate_grad",
        "w0 = r0 where r1 is positive, over 1 - dropout; w1 its column sum",
        (Need.ROW,),
        _activate_grad_shape,
        inplace=(0,),
    )
)
COLUMN_SUM = register(Kind("column_sum", "w = r0 summed over rows", (Need.OWN,), _column_sum_shape))


def _dropout_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    of = cycle.values[op.reads[0]]
    return (Value("", of.space, of.width, of.columns, layout=of.layout, num_entries=of.num_entries),)


def _dropout_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("dropout", grad, **op.attributes))


DROPOUT = register(
    Kind(
        "dropout",
        "w = r0 without what is dropped with `probability`, over 1 - probability",
        (Need.ROW,),
        _dropout_shape,
        _dropout_derive,
        by_row=True,
        by_column=True,
        varies=True,
    )
)


def _add_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    for name, factor in zip(op.reads, op.attributes["factors"], strict=True):
        if factor == 1:
            d.give(name, grad)
        else:
            d.add(name, partial(d.emit, "scale", grad, factor=factor))


ADD = register(
    Kind(
        "add",
        "w = factors[0] r0 + factors[1] r1: residuals, and gradients that meet",
        (Need.ROW,),
        like(),
        _add_derive,
        by_row=True,
        by_column=True,
        inplace=(0, 1),
    )
)


def _scale_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("scale", grad, factor=op.attributes["factor"]))


SCALE = register(
    Kind("scale", "w = factor r0", (Need.ROW,), like(), _scale_derive, by_row=True, by_column=True, inplace=(0,))
)


def _average_heads_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("spread_heads", grad, heads=op.attributes["heads"]))


def _average_heads_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    of = cycle.values[op.reads[0]]
    return (Value("", of.space, of.width // op.attributes["heads"]),)


def _spread_heads_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    of = cycle.values[op.reads[0]]
    return (Value("", of.space, of.width * op.attributes["heads"]),)


AVERAGE_HEADS = register(
    Kind(
        "average_heads",
        "w = the mean of r0 over its `heads`",
        (Need.ROW,),
        _average_heads_shape,
        _average_heads_derive,
        by_row=True,
    )
)
SPREAD_HEADS = register(
    Kind("spread_heads", "w = r0 / heads, once a head", (Need.ROW,), _spread_heads_shape, by_row=True)
)
