"""What operators are counted in: passes over floats, row numbers and rows at random places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FLOAT, INDEX, SECTOR = 4.0, 8.0, 32.0


@dataclass(frozen=True)
class Traffic:
    """Cost of an operator at a shape.

    Args:
        bytes: shape -> bytes read plus written.
        launches: kernels one call launches.
        flops: shape -> FLOPs, where arithmetic can be the limit.
    """

    bytes: Callable[..., float]
    launches: int = 1
    flops: Callable[..., float] | None = None


def random_row_bytes(width: float) -> float:
    """A row of `width` floats read or written at a random place: `max(32, 4 width)`."""
    return max(SECTOR, FLOAT * width)
