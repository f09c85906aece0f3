"""A program with other sizes: its operators and names stay, and its arrays are gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Block, Route, Space

Sizes = tuple[int, ...]


def resized(
    cycle: Cycle,
    rows: Callable[[Space], Sizes | None],
    edges: Callable[[Block], Sizes],
    routed: Callable[[Route], np.ndarray],
) -> Cycle:
    """The cycle with other numbers of rows, edges and routed rows.

    Args:
        rows: of a space (None: as many as before, such as a parameter's).
        edges: of a block; the space of its edges follows.
        routed: int64 [W, W] of a route.
    """
    blocks = {name: replace(block, num_edges=edges(block)) for name, block in cycle.blocks.items()}
    of_edges = {block.edges: block.num_edges for block in blocks.values()}

    def sized(space: Space) -> Space:
        sizes = of_edges.get(space.name) or rows(space)
        if sizes is None:
            return space
        return replace(space, sizes=sizes, num_own=sizes if space.num_own else ())

    return replace(
        cycle,
        spaces={name: sized(space) for name, space in cycle.spaces.items()},
        blocks=blocks,
        routes={name: replace(route, counts=routed(route)) for name, route in cycle.routes.items()},
        arrays=None,
    )


_WITH_OWN = "with halo "
"""Begins the name of rows of which a worker's own are the first."""


def with_part(cycle: Cycle, is_part: Callable[[str], bool], share: float, own: Sizes) -> Cycle:
    """The cycle in which some halo rows, routes and blocks are a share of what they were.

    Args:
        is_part: by the name.
        own: rows of every worker, which stay where they lie before halo rows.
    """

    def rows(space: Space) -> Sizes | None:
        if not is_part(space.name):
            return None
        kept = own if space.name.startswith(_WITH_OWN) else (0,) * len(space.sizes)
        return tuple(mine + int(share * (size - mine)) for mine, size in zip(kept, space.sizes, strict=True))

    def edges(block: Block) -> Sizes:
        if not is_part(block.name):
            return block.num_edges
        return tuple(int(share * count) for count in block.num_edges)

    def routed(route: Route) -> np.ndarray:
        return (share * route.counts).astype(np.int64) if is_part(route.name) else route.counts

    return resized(cycle, rows, edges, routed)


def first_workers(cycle: Cycle, count: int) -> Cycle:
    """The sizes of the first workers alone, without arrays: of workers that are alike one says what all do."""

    def first(sizes: Sizes) -> Sizes:
        return sizes[:count]

    return replace(
        cycle,
        num_workers=count,
        spaces={n: replace(s, sizes=first(s.sizes), num_own=first(s.num_own)) for n, s in cycle.spaces.items()},
        values={
            n: replace(v, columns=v.columns and v.columns[:count], num_entries=first(v.num_entries))
            for n, v in cycle.values.items()
        },
        blocks={n: replace(b, num_edges=first(b.num_edges)) for n, b in cycle.blocks.items()},
        indexes={n: replace(i, num_runs=first(i.num_runs)) for n, i in cycle.indexes.items()},
        routes={n: replace(r, counts=r.counts[:count, :count]) for n, r in cycle.routes.items()},
        arrays=None,
    )
