"""Which values lie in whose storage."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.parts import Operator


def views(cycle: Cycle, op: Operator) -> bool:
    """Whether what an operator writes lies where its first read lies, unchanged.

    Rows of the host's memory do not: a GPU has them copied.
    """
    if op.kind == "take":
        return cycle.indexes[op.attributes["index"]].is_view and cycle.values[op.reads[0]].tier != "pinned"
    return op.kind in ("unflatten", "unstack")


def owners(cycle: Cycle, program: Program) -> dict[str, str]:
    """Value -> the value whose storage it lies in, for views and for what is written in place."""
    found: dict[str, str] = {}
    for op in program:
        if op.inplace is not None:
            source, written = op.reads[op.inplace], op.writes[:1]
        elif views(cycle, op):
            source, written = op.reads[0], op.writes
        else:
            continue
        for name in written:
            if cycle.values[name].role == "temporary":
                found[name] = found.get(source, source)
    return found
