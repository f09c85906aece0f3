"""The region of memory that the workers of one host share: where each of its cells lies, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gnnplan.planner.program.cycle import Cycle

_FLOAT_BYTES, _STAMP_BYTES = 4, 8
_ALIGNED_BYTES = 64  # a cache line: what one worker writes shares none with what another does


@dataclass(frozen=True)
class RegionLayout:
    """First the stamps, int64 [cells, workers], then the rows of one cell after the other, float32 [rows, width].

    Args:
        shapes: (rows, width) of every cell, in its order.
        host_of: the host of every worker; `host` is the one whose region this is.
    """

    shapes: Mapping[str, tuple[int, int]]
    host_of: tuple[int, ...]
    host: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """Of the host's workers, ascending."""
        return tuple(rank for rank, its in enumerate(self.host_of) if its == self.host)

    @property
    def has_rows(self) -> bool:
        """Whether there is more in it than stamps."""
        return any(rows for rows, _ in self.shapes.values())

    @property
    def num_bytes(self) -> int:
        """Of the whole region."""
        return self.offset(None)

    def offset(self, cell: str | None) -> int:
        """Byte at which the rows of a cell begin (None: the end of the last one)."""
        at = _aligned(_STAMP_BYTES * len(self.shapes) * len(self.ranks))
        for name, (rows, width) in self.shapes.items():
            if name == cell:
                break
            at += _aligned(rows * width * _FLOAT_BYTES)
        return at


def region_layout(cycle: Cycle, worker: int, rank: int | None = None) -> RegionLayout | None:
    """The region of a worker's host; None where no host has any.

    Args:
        worker: its place in the cycle's sizes.
        rank: who it is, where the cycle is projected to it.
    """
    cells = [name for name, value in cycle.values.items() if value.tier == "region" and value.role == "cell"]
    if not cells:
        return None
    host_of = _host_of(cycle)
    shapes = {name: (cycle.num_rows(name, worker), cycle.values[name].num_columns(worker)) for name in sorted(cells)}
    return RegionLayout(shapes, host_of, host_of[worker if rank is None else rank])


def region_bytes(cycle: Cycle, worker: int) -> int:
    """Bytes of the region of a worker's host; none where that host holds no rows."""
    layout = region_layout(cycle, worker)
    return layout.num_bytes if layout and layout.has_rows else 0


def _host_of(cycle: Cycle) -> tuple[int, ...]:
    return next(op.attributes["host_of"] for op in cycle.operators() if op.kind == "host_barrier")


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES
