"""Chunks by counts alone: each has its part of the rows, edges and routes of what it was cut of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle

_CHUNK = re.compile(r"(?P<whole>.+)\[(?P<number>\d+)/(?P<count>\d+)\]")
"""As `Ranges` names what belongs to a chunk."""
Sizes = tuple[int, ...]


def with_counts_of_chunks(cycle: Cycle) -> Cycle:
    """The program, whose whole spaces, blocks and routes are counted, with counts of their chunks."""
    edges = _parts({name: block.num_edges for name, block in cycle.blocks.items()})
    blocks = {name: replace(block, num_edges=edges[name]) for name, block in cycle.blocks.items()}
    sizes = _parts({name: space.sizes for name, space in cycle.spaces.items()})
    sizes |= {block.edges: block.num_edges for block in blocks.values() if block.edges in sizes}
    routes = dict(cycle.routes)
    for name, route in cycle.routes.items():
        if (match := _CHUNK.fullmatch(name)) and match["whole"] in cycle.routes:
            routes[name] = replace(route, counts=cycle.routes[match["whole"]].counts // int(match["count"]))
    spaces = {name: replace(space, sizes=sizes[name]) for name, space in cycle.spaces.items()}
    return replace(cycle, spaces=spaces, blocks=blocks, routes=routes)


def _parts(sizes: Mapping[str, Sizes]) -> dict[str, Sizes]:
    """By name, of a chunk its part of what it was cut of, and of anything else what it has."""
    found = dict(sizes)
    for name in sizes:
        if (match := _CHUNK.fullmatch(name)) and match["whole"] in sizes:
            number, count = int(match["number"]), int(match["count"])
            whole = sizes[match["whole"]]
            found[name] = tuple(size * (number + 1) // count - size * number // count for size in whole)
    return found
