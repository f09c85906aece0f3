"""Bytes of a worker's page-locked memory of its host, of which a GPU takes rows and blocks."""

from __future__ import annotations

from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import moves_outside
from gnnplan.planner.program.parts import ITEM_BYTES, Operator, Tier
from gnnplan.planner.readers.block_bytes import blocks_bytes
from gnnplan.planner.readers.liveness import training_bytes

_LONG_BYTES, _FLOAT_BYTES = 8, 4


def pinned_bytes(cycle: Cycle, worker: int) -> int:
    """Rows that lie there, those on their way, every block in each direction, and indexes of rows.

    The host hands a freed block of memory only to rows of the same size, as the CPU's pool does.
    """
    return outside_bytes(cycle, worker, "pinned") + most_on_their_way(cycle, worker) * _FLOAT_BYTES


def outside_bytes(cycle: Cycle, worker: int, tier: Tier) -> int:
    """Of rows that lie in a tier outside at once, and of what lies there with them: inputs, blocks, rows of indexes."""
    programs = [program for name, program in cycle.programs.items() if name != EVALUATE]
    inputs = [v for v in cycle.values.values() if v.role == "input" and v.tier == tier]
    indexes = {
        op.attributes["index"]
        for program in programs
        for op in program
        if KINDS[op.kind].by_part and not cycle.indexes[op.attributes["index"]].is_view
    }
    return (
        training_bytes(cycle, worker, tier=tier).held_bytes
        + sum(cycle.num_rows(v.name, worker) * v.num_columns(worker) * ITEM_BYTES[v.dtype] for v in inputs)
        + blocks_bytes(cycle, worker, programs, {})
        + sum(_LONG_BYTES * cycle.spaces[cycle.indexes[name].target].sizes[worker] for name in indexes)
    )


def most_on_their_way(cycle: Cycle, worker: int) -> int:
    """Numbers of the rows that the host gathers for an operator, or gets to add up: of the operator with most of them.

    One operator's copies are waited for before the next one's begin, so all use the same memory.
    """
    operators = (op for op in cycle.operators() if moves_outside(cycle, op))
    return max((_on_their_way(cycle, op, worker) for op in operators), default=0)


def _on_their_way(cycle: Cycle, op: Operator, worker: int) -> int:
    if op.kind in ("take", "put") and cycle.indexes[op.attributes["index"]].is_view:
        return 0
    name = op.writes[0] if op.kind == "take" else op.reads[0]
    return cycle.num_rows(name, worker) * cycle.values[name].num_columns(worker)
