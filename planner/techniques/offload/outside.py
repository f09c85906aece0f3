"""Which values lie outside of a worker's memory: those that are only ever read and written some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator, Tier, Value


def keep_outside(cycle: Cycle, tier: Tier) -> Cycle:
    """The cycle with these values in a tier that is outside.

    Inputs and temporaries are among them, and results are not. Values that lie in one storage, as those that rows are
    put into one after another, go together or stay.
    """
    outside = _in_parts(cycle)
    values = {n: replace(value, tier=tier) if n in outside else value for n, value in cycle.values.items()}
    return replace(cycle, values=values)


def _in_parts(cycle: Cycle) -> set[str]:
    operators = list(cycle.operators())
    touched = {name for op in operators for name in _whole(op)}
    made = {op.writes[0] for op in operators if KINDS[op.kind].by_part and op.kind != "take"}
    read = {name for op in operators for name in op.reads}
    found = {n for n, value in cycle.values.items() if _may_lie_outside(value) and n in read - touched}
    found = {name for name in found if name in made or cycle.values[name].role == "input"} - cycle.results
    together = list(_together(operators))
    while alone := {name for pair in together if not found.issuperset(pair) for name in found.intersection(pair)}:
        found -= alone
    return found


def _may_lie_outside(value: Value) -> bool:
    return value.role in ("temporary", "input") and value.layout == "dense" and value.dtype == "float32"


def _whole(op: Operator) -> Iterator[str]:
    """What an operator reads or writes all rows of."""
    if not KINDS[op.kind].by_part:
        yield from op.reads
        yield from op.writes
    elif op.kind == "take":
        yield from op.writes
    else:
        yield op.reads[0]


def _together(operators: list[Operator]) -> Iterator[tuple[str, str]]:
    """What an operator adds to, and what it makes of that: both lie in one storage."""
    return ((op.reads[-1], op.writes[0]) for op in operators if KINDS[op.kind].by_part and op.has_base)
