"""Programs on a share of the graph, or of its columns, by sizes alone: what a worker would take if it had so much."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Space, Value


def on_share(cycle: Cycle, share: float) -> Cycle:
    """The cycle with all rows of vertices and all edges in proportion, without arrays.

    Rows and entries are rounded; of vertices at least one is left.
    """
    return on_parts(cycle, share, share)


def on_parts(cycle: Cycle, of_rows: float, of_edges: float) -> Cycle:
    """As `on_share`, with a share of the vertices and of what features they have, and another one of the edges."""
    fixed = {name for name, space in cycle.spaces.items() if space.is_of_parameters}
    levels = {name for name, space in cycle.spaces.items() if space.is_of_vertices}
    of_blocks = {block.edges for block in cycle.blocks.values()}

    def scaled(sizes: tuple[int, ...], share: float, least: int = 0) -> tuple[int, ...]:
        return tuple(max(least, round(size * share)) for size in sizes)

    def of(name: str, space: Space) -> Space:
        share = of_edges if name in of_blocks else of_rows
        sizes = scaled(space.sizes, share, int(name in levels))
        return replace(space, sizes=sizes, num_own=scaled(space.num_own, share))

    values, blocks = cycle.values.items(), cycle.blocks.items()
    return replace(
        cycle,
        spaces={name: space if name in fixed else of(name, space) for name, space in cycle.spaces.items()},
        values={
            name: replace(value, num_entries=scaled(value.num_entries, of_rows)) if value.num_entries else value
            for name, value in values
        },
        blocks={name: replace(block, num_edges=scaled(block.num_edges, of_edges)) for name, block in blocks},
        arrays=None,
    )


def on_columns(cycle: Cycle, share: float) -> Cycle:
    """The cycle with what sums over edges in the first columns alone, in proportion, without arrays.

    Columns are rounded; at least one is left. Parameters and what is not dense stay as they are, and so does what no
    such operator reads or writes.
    """
    sums = (op for op in cycle.operators() if "block" in op.attributes)
    names = {name for op in sums for name in (*op.reads, *op.writes)}

    def sliced(value: Value) -> Value:
        if value.role == "parameter" or value.layout != "dense" or not value.width:
            return value
        return replace(value, columns=((0, max(1, round(value.width * share))),) * cycle.num_workers)

    return replace(cycle, values={**cycle.values, **{name: sliced(cycle.values[name]) for name in names}}, arrays=None)
