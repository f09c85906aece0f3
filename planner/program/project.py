"""A cycle as one worker sees it: the same operators, with its own sizes, arrays, and ends of the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle


@dataclass(frozen=True)
class Projection:
    """One worker's part of a cycle.

    Args:
        rank: which worker.
        num_workers: of the whole cycle.
        cycle: of this worker alone, so every tuple has one entry. Its routes stand in `send_counts` and `recv_counts`.
        send_counts, recv_counts: by route, rows to and from every worker.
    """

    rank: int
    num_workers: int
    cycle: Cycle
    send_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    recv_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def counts(self, route: str, *, back: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows sent to and received from every worker; `back`: on the way back."""
        both = self.send_counts[route], self.recv_counts[route]
        return both[::-1] if back else both


def project(cycle: Cycle, rank: int) -> Projection:
    """What the worker of a rank needs of a cycle."""
    spaces = {
        name: replace(space, sizes=(space.sizes[rank],), num_own=space.num_own[rank : rank + 1])
        for name, space in cycle.spaces.items()
    }
    values = {
        name: replace(
            value,
            columns=value.columns[rank : rank + 1] if value.columns else None,
            num_entries=value.num_entries[rank : rank + 1],
        )
        for name, value in cycle.values.items()
    }
    blocks = {name: replace(block, num_edges=(block.num_edges[rank],)) for name, block in cycle.blocks.items()}
    return Projection(
        rank,
        cycle.num_workers,
        replace(
            cycle,
            num_workers=1,
            spaces=spaces,
            values=values,
            blocks=blocks,
            arrays=cycle.arrays.of_worker(rank) if cycle.arrays else None,
        ),
        {name: tuple(route.counts[rank].tolist()) for name, route in cycle.routes.items()},
        {name: tuple(route.counts[:, rank].tolist()) for name, route in cycle.routes.items()},
    )


def attach(projection: Projection, arrays: Arrays) -> Projection:
    """The projection with a worker's arrays."""
    return replace(projection, cycle=replace(projection.cycle, arrays=arrays))
