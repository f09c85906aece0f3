"""The row layout by counts alone: what `share_rows` would have cut, as far as readers ask."""

from __future__ import annotations

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.models.forward import MASKS
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Block, Space
from gnnplan.planner.program.resized import Sizes, resized


def with_counts(cycle: Cycle, counts: Counts) -> Cycle:
    """The program of a small graph that was shared out by rows, with the counts of another.

    Args:
        cycle: in which every worker has halo rows, and no row is labelled otherwise than sent.
    """
    halo = tuple(own + received for own, received in zip(counts.own, counts.received, strict=True))
    of_prefix = {"sent ": counts.sent, "received ": counts.received, "with halo ": halo}
    split = dict(zip(MASKS, counts.split, strict=True))
    every = tuple(map(sum, zip(counts.local_edges, counts.remote_edges, strict=True)))

    def rows(space: Space) -> Sizes | None:
        if space.is_of_vertices:
            return counts.own
        prefixed = (sizes for prefix, sizes in of_prefix.items() if space.name.startswith(prefix))
        return split.get(space.name) or next(prefixed, None)

    def edges(block: Block) -> Sizes:
        if cycle.spaces[block.column].is_of_vertices:
            return counts.local_edges
        return counts.remote_edges if block.column.startswith("received ") else every

    return resized(cycle, rows, edges, lambda route: counts.routes)
