"""Rows that lie outside of a worker's own memory, which is read and written some rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gnnplan.planner.program.parts import Operator, Tier

OUTSIDE: frozenset[Tier] = frozenset({"disk", "pinned"})
"""Where such rows may lie: in files, or in page-locked memory of the host, of which a GPU takes them."""


class HasValues(Protocol):
    """A cycle, or the document of one."""

    @property
    def values(self) -> Mapping[str, Any]:
        """By name, with a `tier` each."""
        ...


def lies_on_disk(of: HasValues) -> bool:
    """Whether some rows do. Then matrices, the rows of indexes and all inputs lie in files too."""
    return any(value.tier == "disk" for value in of.values.values())


def is_staged(of: HasValues) -> bool:
    """Whether some rows lie in memory of the host. Then matrices do too, and go to the GPU for one operator each."""
    return any(value.tier == "pinned" for value in of.values.values())


def moves_outside(of: HasValues, op: Operator) -> bool:
    """Whether an operator reads or writes rows that lie outside."""
    return any(of.values[name].tier in OUTSIDE for name in (*op.reads, *op.writes))
