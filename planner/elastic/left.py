"""Who of a run's workers is left, who is out, and who may come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gnnplan.planner.cluster import Placement, WorkerPlace

Where = tuple[str, int]
"""A worker's host, and its device there."""


@dataclass
class Left:
    """The workers that a run may be planned for.

    Args:
        all: that there were.
        answers: whether a host can be reached.
    """

    all: Placement
    answers: Callable[[str], bool]
    out: set[Where] = field(default_factory=set)

    def without(self, lost: Iterable[WorkerPlace]) -> Placement | None:
        """Who is left when these are lost; None where nobody is.

        Those that were lost before and answer now are back, and so is everybody who answers where else nobody was left.
        A worker that was killed has a host that answers, so it sits out one plan at least.
        """
        now = {_where(place) for place in lost}
        back = {where for where in self.out - now if self.answers(where[0])}
        self.out = (self.out - back) | now
        ranks = self._ranks()
        if not ranks:
            self.out = {where for where in self.out if not self.answers(where[0])}
            ranks = self._ranks()
        return self.all.of(ranks) if ranks else None

    def _ranks(self) -> list[int]:
        return [rank for rank, place in enumerate(self.all.workers) if _where(place) not in self.out]


def in_words(places: Iterable[WorkerPlace]) -> str:
    """Workers by their hosts: `2 workers on a and b`."""
    places = list(places)
    hosts = list(dict.fromkeys(place.host for place in places))
    return f"{len(places)} worker{'s'[: len(places) != 1]} on {' and '.join(hosts)}"


def _where(place: WorkerPlace) -> Where:
    return place.host, place.device_index
