"""Sums over edges with fixed weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def made_rows(cycle: Cycle, op: Operator) -> str:
    """The space of the rows that an operator over a block makes; `back` is the transposed block."""
    block = cycle.blocks[op.attributes["block"]]
    return block.column if op.attributes.get("back") else block.row


def _aggregate_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x, space = cycle.values[op.reads[0]], made_rows(cycle, op)
    entries = _most_entries(cycle, op, space) if x.layout == "csr" else ()
    return (Value("", space, x.width, x.columns, layout=x.layout, num_entries=entries),)


def _most_entries(cycle: Cycle, op: Operator, space: str) -> tuple[int, ...]:
    """Entries that sums of sparse rows have at most, where every edge brings a mean row's and none of them meet."""
    x, block = cycle.values[op.reads[0]], cycle.blocks[op.attributes["block"]]
    sizes = zip(x.num_entries, cycle.spaces[x.space].sizes, cycle.spaces[space].sizes, block.num_edges, strict=True)
    return tuple(min(rows * x.width, -(-entries * edges // max(read, 1))) for entries, read, rows, edges in sizes)


def _aggregate_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    back = not op.attributes.get("back", False)
    d.add(op.reads[0], lambda: d.emit("aggregate", grad, block=op.attributes["block"], back=back))
    d.pass_base(op, grad)


AGGREGATE = register(
    Kind(
        "aggregate",
        "w = block @ r0, with `back` block.T @ r0",
        (Need.COLUMN, Need.ROW),
        _aggregate_shape,
        _aggregate_derive,
        by_column=True,
        takes_base=True,
        holds="matrix",
    )
)


def _filter_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    weight = cycle.values[op.reads[1]]
    level = cycle.spaces[cycle.values[op.reads[0]].space].level
    assert level is not None
    width = weight.width if op.attributes.get("back") else cycle.spaces[weight.space].sizes[0]
    return (Value("", f"v@{level + max(op.attributes['hops'])}", width),)


FILTER = register(
    Kind(
        "filter",
        "w = the sum over k of A^hops[k] @ r0 @ r[k + 1].T, a polynomial graph filter: linear, so that its products "
        "and aggregations may come in any order; with `matrices` each term of one hop has an A of its own, with `back` "
        "r[k + 1] is not turned",
        (Need.COLUMN, Need.WHOLE),
        _filter_shape,
        is_abstract=True,
    )
)
