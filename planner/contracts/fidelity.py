"""How far a training may be from one device's numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal, get_args

Kind = Literal["exact", "stale", "approximate"]


@total_ordering
@dataclass(frozen=True)
class Fidelity:
    """What a decision costs in exactness; the greater one costs more.

    Args:
        kind: `exact` is one device's numbers up to rounding, `stale` uses rows or gradients of earlier epochs again,
            and `approximate` leaves something out.
        epochs: everything that is used was made within so many epochs, the present one included.
    """

    kind: Kind = "exact"
    epochs: int = 1

    def __lt__(self, other: Fidelity) -> bool:
        return self._rank < other._rank

    def __str__(self) -> str:
        return f"stale({self.epochs})" if self.kind == "stale" and self.epochs < sys.maxsize else self.kind

    @property
    def _rank(self) -> tuple[int, int]:
        return get_args(Kind).index(self.kind), self.epochs


EXACT = Fidelity()


def up_to(kind: Kind) -> Fidelity:
    """The most that a job allows which sets no limit of epochs."""
    return Fidelity(kind, sys.maxsize)


ANY = up_to("approximate")
