"""Why a technique can do nothing with a module that has layers of somebody's own."""

from __future__ import annotations

from gnnplan.planner.contracts.technique import AnyTechnique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.whole import carries_edges, has_whole


def unable(technique: AnyTechnique, forward: Cycle) -> str | None:
    """In words, and what to do (None: it can)."""
    name = technique.name
    if technique.sums_only and has_whole(forward):
        return f"{name} knows sums over edges, and the module has layers that run their own code; leave it out"
    if technique.changes_edges and carries_edges(forward):
        return f"{name} gives levels different edges, and layers of the module hand features of edges on; leave it out"
    return None
