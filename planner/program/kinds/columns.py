"""Rows for columns: from a worker's own rows with all columns to all rows with a slice of columns, and back.

NeutronTP, section 3.1, calls the way there *split* and the way back *gather*. Shapes: worker p owns n_p of N rows and
has c_p of C columns, `columns[p]` of them; [n_p, C] on the one side, [N, c_p] on the other. Every element is on exactly
one worker on either side, so the derivative of each operator is its way back.

With `groups` > 1 the workers are in that many groups of as many, in order. Each group turns its own rows by itself: N
counts its rows, and its members' slices are all columns.

With `heads` > 1 a row has that many heads of C / heads channels. A slice then takes the same channels of every head,
and `columns` counts all heads together.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gnnplan.planner.program.kinds.kind import Derive, Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation

Slices = tuple[tuple[int, int], ...]


def _repack_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x = cycle.values[op.reads[0]]
    _check_slices(cycle, op, x)
    assert all(stop % op.attributes["heads"] == 0 for _, stop in op.attributes["columns"])
    return (Value("", x.space, x.width, layout=x.layout, num_entries=x.num_entries),)


def _transpose_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    """Raises `AssertionError` where rows or columns of the workers are not all of them, each once."""
    x, route, back = cycle.values[op.reads[0]], cycle.routes[op.attributes["route"]], op.attributes["back"]
    columns = _check_slices(cycle, op, x)
    rows, whole = cycle.spaces[route.source].sizes, cycle.spaces[route.target].sizes
    group = np.arange(len(rows)) // members_of(op)
    assert (route.counts == np.where(group[:, None] == group, np.array(rows)[:, None], 0)).all()
    assert route.counts.sum(0).tolist() == list(whole)
    assert (cycle.spaces[x.space].sizes, x.columns) == ((whole, columns) if back else (rows, None))
    entries = _moved_entries(x, rows, columns, members_of(op), back=back) if x.layout == "csr" else ()
    space, kept = (route.source, None) if back else (route.target, columns)
    return (Value("", space, x.width, kept, dtype=x.dtype, layout=x.layout, num_entries=entries),)


def members_of(op: Operator) -> int:
    """Workers of each group that an operator turns columns in."""
    return len(op.attributes["columns"]) // op.attributes.get("groups", 1)


def slices_of(op: Operator, worker: int) -> Slices:
    """The slices of a worker's group, its members' in order."""
    members = members_of(op)
    first = worker // members * members
    return op.attributes["columns"][first : first + members]


def _check_slices(cycle: Cycle, op: Operator, x: Value) -> Slices:
    """The slices of all workers; those of each group follow one another over all columns of a value."""
    columns, members = op.attributes["columns"], members_of(op)
    assert len(columns) == cycle.num_workers == members * op.attributes.get("groups", 1)
    bounds = [0, *(stop for _, stop in columns[:members])]
    assert columns == tuple(pairwise(bounds)) * (len(columns) // members)
    assert bounds[-1] == x.width
    return columns


def _moved_entries(x: Value, rows: tuple[int, ...], columns: Slices, members: int, *, back: bool) -> tuple[int, ...]:
    """Stored entries, taken to be as many in every row and every column of a group's."""
    found: list[int] = []
    for first in range(0, len(rows), members):
        own, total = rows[first : first + members], sum(x.num_entries[first : first + members])
        if back:
            found += [total * count // max(sum(own), 1) for count in own]
        else:
            found += [total * (stop - start) // max(x.width, 1) for start, stop in columns[first : first + members]]
    return tuple(found)


def _turned(kind: str) -> Derive:
    """The derivative of an operator that only moves elements: its way back, of this kind."""

    def derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
        (grad,) = grads
        assert grad
        back = {"back": not op.attributes["back"]} if "back" in op.attributes else {}
        d.add(op.reads[0], lambda: d.emit(kind, grad, **{**op.attributes, **back}))

    return derive


PACK_COLUMNS = register(
    Kind(
        "pack_columns",
        "w = the elements of r0 by slice: all rows of the first of the group's `columns`, then of the next",
        (Need.ROW,),
        _repack_shape,
        _turned("unpack_columns"),
    )
)
UNPACK_COLUMNS = register(
    Kind(
        "unpack_columns",
        "w = the elements of r0, which stand by slice, by row again",
        (Need.ROW,),
        _repack_shape,
        _turned("pack_columns"),
    )
)
TRANSPOSE = register(
    Kind(
        "transpose",
        "w = all rows of r0 in the group, of the worker's slice of `columns` alone; with `back` its own rows, by slice",
        (Need.ROW,),
        _transpose_shape,
        _turned("transpose"),
        collective=True,
    )
)
