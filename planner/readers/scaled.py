"""Programs on a share of the graph, or of its columns, by sizes alone: what a worker would take if it had so much."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Value, parameter_space


def on_share(cycle: Cycle, share: float) -> Cycle:
    """The cycle with all rows of vertices and all edges in proportion, without arrays.

    Rows and entries are rounded; of vertices at least one is left.
    """
    fixed = {name for name, space in cycle.spaces.items() if name == parameter_space(space.sizes[0])}
    levels = {name for name, space in cycle.spaces.items() if space.is_of_vertices}

    def scaled(sizes: tuple[int, ...], least: int = 0) -> tuple[int, ...]:
        return tuple(max(least, round(size * share)) for size in sizes)

    return replace(
        cycle,
        spaces={
            name: space
            if name in fixed
            else replace(space, sizes=scaled(space.sizes, int(name in levels)), num_own=scaled(space.num_own))
            for name, space in cycle.spaces.items()
        },
        values={name: replace(value, num_entries=scaled(value.num_entries)) for name, value in cycle.values.items()},
        blocks={name: replace(block, num_edges=scaled(block.num_edges)) for name, block in cycle.blocks.items()},
        arrays=None,
    )


def on_columns(cycle: Cycle, share: float) -> Cycle:
    """The cycle with all dense values but parameters in the first columns alone, in proportion, without arrays.

    Columns are rounded; at least one is left.
    """

    def sliced(value: Value) -> Value:
        if value.role == "parameter" or value.layout != "dense" or not value.width:
            return value
        return replace(value, columns=((0, max(1, round(value.width * share))),) * cycle.num_workers)

    return replace(cycle, values={name: sliced(value) for name, value in cycle.values.items()}, arrays=None)
