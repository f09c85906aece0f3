"""Rows that the workers of one host hold together: written by one of them, read by all.

Shapes: a region's space has as many rows on every worker of a host, which are the same rows. Each worker writes some
of them, which lie together, in the order of ranks. `host_of` is the host of every worker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle


def _publish_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x, places = cycle.values[op.reads[0]], cycle.indexes[op.attributes["places"]]
    assert x.layout == "dense"
    return (Value("", places.target, x.width, x.columns, dtype=x.dtype, tier="region"),)


def _host_barrier_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    """Raises `AssertionError` where a host's workers do not write all rows of its region, each of them once."""
    written, places = cycle.values[op.reads[0]], cycle.indexes[op.attributes["places"]]
    region, hosts = cycle.spaces[places.source], op.attributes["host_of"]
    assert written.tier == "region"
    assert len(hosts) == cycle.num_workers
    for host in set(hosts):
        ranks = [rank for rank, its in enumerate(hosts) if its == host]
        num_written = sum(cycle.spaces[places.target].sizes[rank] for rank in ranks)
        assert {region.sizes[rank] for rank in ranks} == {num_written}
    return (replace(written, name="", space=places.source, role="temporary"),)


def _find_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    region = cycle.values[op.reads[0]]
    assert region.tier == "region"
    target = cycle.indexes[op.attributes["index"]].target
    return (Value("", target, region.width, region.columns, dtype=region.dtype),)


PUBLISH = register(
    Kind(
        "publish",
        "w = rows of r0 that the index names, and below them r1, where they lie in the region: in `cell`, at `places`",
        (Need.ROW,),
        _publish_shape,
    )
)
HOST_BARRIER = register(
    Kind(
        "host_barrier",
        "w = what all workers of the host have written, one below the other: they wait for each other",
        (Need.ROW,),
        _host_barrier_shape,
        collective=True,
        blocking=True,
    )
)
FIND = register(Kind("find", "w = the rows of the region r0 that the index names", (Need.ROW,), _find_shape))
