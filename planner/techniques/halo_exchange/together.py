"""Blocks whose rows are fetched together: those that gather the same value, as sums over several types of edges do."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS


def blocks_together(cycle: Cycle) -> Mapping[str, tuple[str, ...]]:
    """By block all blocks that its rows are fetched for at once, itself among them.

    Two blocks of the same levels are together where some value is gathered by both, or where a third one is together
    with each. A block has the same columns wherever it is used, so this holds for all programs at once.
    """
    group_of = {name: frozenset({name}) for name in cycle.blocks}
    by_value: dict[tuple[str, str, str, str], str] = {}
    for program, operators in cycle.programs.items():
        for op in operators:
            for value in KINDS[op.kind].gathered(op):
                block = cycle.blocks[op.attributes["block"]]
                first = by_value.setdefault((program, value, block.column, block.row), block.name)
                merged = group_of[first] | group_of[block.name]
                group_of |= dict.fromkeys(merged, merged)
    return {name: tuple(sorted(group)) for name, group in group_of.items()}
