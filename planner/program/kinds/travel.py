"""Rows taken, sent, put together and returned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _moved(cycle: Cycle, op: Operator, space: str) -> tuple[Value, ...]:
    x = cycle.values[op.reads[0]]
    entries = tuple(op.attributes.get("entries", ()))
    return (Value("", space, x.width, x.columns, dtype=x.dtype, layout=x.layout, num_entries=entries),)


def _take_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("scatter_add", grad, index=op.attributes["index"]))


TAKE = register(
    Kind(
        "take",
        "w = the rows of r0 that the index names",
        (Need.ROW,),
        lambda cycle, op: _moved(cycle, op, cycle.indexes[op.attributes["index"]].target),
        _take_derive,
        by_part=True,
    )
)
SCATTER_ADD = register(
    Kind(
        "scatter_add",
        "w = rows of r0 added up at the places that the index names, zero elsewhere",
        (Need.ROW,),
        lambda cycle, op: _moved(cycle, op, cycle.indexes[op.attributes["index"]].source),
        takes_base=True,
        by_part=True,
    )
)


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
        lambda cycle, op: _moved(cycle, op, cycle.indexes[op.attributes["index"]].source),
        _put_derive,
        takes_base=True,
        by_part=True,
    )
)


def _place_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    for name, index in zip(op.reads, op.attributes["parts"], strict=True):
        d.add(name, partial(d.emit, "take", grad, index=index))


PLACE = register(
    Kind(
        "place",
        "w = all reads, one below the other; `parts` are the indexes that take them out again",
        (Need.ROW,),
        lambda cycle, op: _moved(cycle, op, cycle.indexes[op.attributes["parts"][0]].source),
        _place_derive,
    )
)


def _exchange_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    route = cycle.routes[op.attributes["route"]]
    return _moved(cycle, op, route.source if op.attributes.get("back") else route.target)


def _exchange_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    attributes = {**op.attributes, "back": not op.attributes.get("back", False)}
    d.add(op.reads[0], lambda: d.emit("exchange", grad, **attributes))


EXCHANGE = register(
    Kind(
        "exchange",
        "w = rows of r0 at their receivers, as the route says; with `back` back, with `late` the last that came",
        (Need.ROW,),
        _exchange_shape,
        _exchange_derive,
        collective=True,
    )
)
