"""Rows that a block reads, by counts alone: as many of its columns as have entries, in expectation."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.offload.read_rows import READ


def with_counts_of_read(cycle: Cycle, counts: Counts) -> Cycle:
    """The program, whose other spaces and blocks are counted, with counts of what its blocks read."""
    spaces, blocks = dict(cycle.spaces), dict(cycle.blocks)
    for name, block in cycle.blocks.items():
        if not name.endswith(READ):
            continue
        whole = cycle.blocks[name.removesuffix(READ)]
        columns = cycle.spaces[whole.column].sizes
        read = tuple(_touched(size, edges, counts) for size, edges in zip(columns, whole.num_edges, strict=True))
        blocks[name] = replace(block, num_edges=whole.num_edges)
        spaces[block.column] = replace(spaces[block.column], sizes=read)
        if block.edges in spaces:
            spaces[block.edges] = replace(spaces[block.edges], sizes=whole.num_edges)
    # Runs were counted in a graph that only stands in.
    indexes = {name: replace(index, num_runs=()) for name, index in cycle.indexes.items()}
    return replace(cycle, spaces=spaces, blocks=blocks, indexes=indexes)


def _touched(num_columns: int, num_edges: int, counts: Counts) -> int:
    return round(num_columns * counts.touched(num_edges / num_columns)) if num_columns else 0
