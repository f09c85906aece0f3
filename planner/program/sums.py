"""How wide the rows are that a program adds up by a block."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS


def widest_sums(cycle: Cycle, worker: int) -> dict[tuple[str, bool], int]:
    """Most columns of the dense float32 rows that a block multiplies, by its content and whether it is transposed."""
    found: dict[tuple[str, bool], int] = {}
    for op in cycle.operators():
        x = cycle.values[op.reads[0]] if op.reads else None
        if KINDS[op.kind].holds == "matrix" and x and (x.layout, x.dtype) == ("dense", "float32"):
            name = op.attributes["block"]
            key = cycle.blocks[name].content or name, bool(op.attributes.get("back"))
            found[key] = max(found.get(key, 0), x.num_columns(worker))
    return found
