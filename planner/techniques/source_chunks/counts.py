"""Source chunks by counts alone: a step has one part in B of the halo rows and edges; states have all own rows."""

from __future__ import annotations

import re
from dataclasses import replace

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.resized import with_part

_ENDS = r"(?=$|[/ \[])"
_OF_CHUNK = re.compile(rf"/chunk\d+(/entries)?{_ENDS}")
_DIAGONAL = re.compile(rf"/(sums|fed|loops|(left|mass|scale)(\d+|whole)){_ENDS}")
"""As `Divided` names its blocks."""


def with_counts_of_chunks(cycle: Cycle, counts: Counts, num_chunks: int) -> Cycle:
    """The program with the counts of its chunks, where the layout has given each those of the whole graph."""
    if num_chunks == 1:
        return cycle
    cycle = with_part(cycle, lambda name: bool(_OF_CHUNK.search(name)), 1 / num_chunks, counts.own)
    blocks = {
        name: replace(block, num_edges=counts.own) if _DIAGONAL.search(name) else block
        for name, block in cycle.blocks.items()
    }
    edges = {block.edges: block.num_edges for block in blocks.values()}
    spaces = {name: replace(space, sizes=edges.get(name, space.sizes)) for name, space in cycle.spaces.items()}
    return replace(cycle, blocks=blocks, spaces=spaces)
