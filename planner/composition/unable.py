"""Why a technique can do nothing with layers of somebody's own, or with pairs of vertices."""

from __future__ import annotations

from gnnplan.planner.contracts.technique import AnyTechnique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.whole import blocks_of_pairs, carries_edges, runs_module


def unable(technique: AnyTechnique, forward: Cycle) -> str | None:
    """In words, and what to do (None: it can)."""
    name = technique.name
    if technique.sums_only and runs_module(forward):
        return f"{name} knows sums over edges, and the module has layers that run their own code; leave it out"
    if technique.changes_edges and carries_edges(forward):
        return f"{name} gives levels different edges, and layers of the module hand features of edges on; leave it out"
    if technique.drops_edges and blocks_of_pairs(forward):
        return f"{name} leaves edges out, and a link prediction needs every pair that it trains on; leave it out"
    return None
