"""Blocks whose rows are fetched together: those that gather the same values, as sums over several types of edges do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS


def blocks_together(cycle: Cycle) -> Mapping[str, tuple[str, ...]]:
    """By block all blocks that its rows are fetched for at once, itself among them.

    Two blocks of the same levels are together where every value that one gathers is gathered by the other, in all
    programs. So nobody fetches a row for a block that a program does not use.
    """
    uses: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for program, operators in cycle.programs.items():
        for op in operators:
            for value in KINDS[op.kind].gathered(op):
                uses[op.attributes["block"]].add((program, value))
    alike: dict[tuple, list[str]] = defaultdict(list)
    for name, gathered in uses.items():
        block = cycle.blocks[name]
        alike[block.column, block.row, frozenset(gathered)].append(name)
    return {name: tuple(sorted(group)) for group in alike.values() for name in group}
