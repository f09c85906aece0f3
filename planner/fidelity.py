"""How far a training may be from one device's numbers."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal, cast, get_args

Kind = Literal["exact", "stale", "approximate"]
DECOUPLED = "decoupled"


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
        return f"stale({self.limit})" if self.limit else self.kind

    @property
    def limit(self) -> int | None:
        """The most epochs, where there is a limit."""
        return self.epochs if self.kind == "stale" and self.epochs < sys.maxsize else None

    @property
    def _rank(self) -> tuple[int, int]:
        return get_args(Kind).index(self.kind), self.epochs


EXACT = Fidelity()


def up_to(words: str) -> Fidelity:
    """The most that is allowed, in a job's words: `exact`, `stale(r)`, or without a limit `stale` or `approximate`.

    `decoupled`, alone or behind one of these and a comma, allows another model (`allows_decoupled`), and nothing more
    of how that one is trained. Raises `ValueError` on others.
    """
    found = re.fullmatch(r"(exact|stale|approximate)|stale\(([1-9]\d{0,3})\)", of_training(words))
    if found is None:
        raise ValueError(
            f"{words!r} is none: write exact, stale(r) with r epochs from 1 to 9999, stale or approximate, and for the "
            f"model's decoupled form decoupled, alone or behind a comma"
        )
    kind, epochs = found.groups()
    return Fidelity(cast(Kind, kind or "stale"), int(epochs) if epochs else sys.maxsize)


def allows_decoupled(words: str) -> bool:
    """Whether a job's words allow the decoupled form of its model: other numbers, for it is another model."""
    return words.rpartition(", ")[2] == DECOUPLED


def of_training(words: str) -> str:
    """A job's words without those that allow another model."""
    return "exact" if words == DECOUPLED else words.removesuffix(f", {DECOUPLED}")


ANY = up_to("approximate")
