"""How wide the rows are that a program adds up by a block."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS


def widest_sums(cycle: Cycle, worker: int) -> dict[tuple[str, bool], int]:
    """Most columns of the dense rows that a block multiplies, by its content and whether it is taken transposed."""
    found: dict[tuple[str, bool], int] = {}
    for op in (op for program in cycle.programs.values() for op in program):
        if KINDS[op.kind].holds == "matrix" and cycle.values[op.reads[0]].layout == "dense":
            name = op.attributes["block"]
            key = cycle.blocks[name].content or name, bool(op.attributes.get("back"))
            found[key] = max(found.get(key, 0), cycle.values[op.reads[0]].num_columns(worker))
    return found
