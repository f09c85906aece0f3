"""What of a program some techniques can do nothing with: layers of somebody's own, and pairs."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle


def runs_module(cycle: Cycle) -> bool:
    """Whether workers need the code of the user's module."""
    return any("module" in op.attributes for op in cycle.operators())


def carries_edges(cycle: Cycle) -> bool:
    """Whether what a layer makes on edges is read at another level, where a worker must have the same ones."""
    return any(op.kind == "on_block" for op in cycle.operators())


def blocks_of_pairs(cycle: Cycle) -> set[str]:
    """Blocks whose entries are pairs that a loss or a metric is of, each of them once."""
    return {op.attributes["block"] for op in cycle.operators() if op.kind == "pair_score"}
