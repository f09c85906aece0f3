"""Operators that are one whole: layers of somebody's own."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS


def has_whole(cycle: Cycle) -> bool:
    """Whether some operator may not be made several, each over a part of what it gathers or writes."""
    return any(KINDS[op.kind].is_whole for program in cycle.programs.values() for op in program)


def runs_module(cycle: Cycle) -> bool:
    """Whether workers need the code of the user's module."""
    return any("module" in op.attributes for program in cycle.programs.values() for op in program)


def carries_edges(cycle: Cycle) -> bool:
    """Whether what a layer makes on edges is read at another level, where a worker must have the same ones."""
    return any(op.kind == "on_block" for program in cycle.programs.values() for op in program)
