"""What a worker says of one epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gnnplan.planner.schedule import Category


@dataclass
class EpochRecord:
    """One measured epoch of one worker, seconds on its clock until it is `shifted`.

    Args:
        epoch: whose step it took part in.
        begun: the epoch it computed, an earlier one where the others went on without it (None: the same).
        num_members: workers that took part (0: all).
        oldest: epochs, age of the oldest halo rows or gradients used.
        paused_s: for which the training had been held by then, since it began, to evaluate.
    """

    epoch: int
    start_s: float
    end_s: float
    loss: float
    spans: list[tuple[str, Category, float, float]] = field(default_factory=list)
    sent_bytes: int = 0
    begun: int | None = None
    num_members: int = 0
    oldest: int = 0
    paused_s: float = 0.0

    def shifted(self, clock: Callable[[float], float]) -> EpochRecord:
        """The same by another clock."""
        spans = [(key, category, clock(start_s), clock(end_s)) for key, category, start_s, end_s in self.spans]
        return replace(self, start_s=clock(self.start_s), end_s=clock(self.end_s), spans=spans)

    def longest_tasks(self, count: int) -> dict[str, float]:
        """Seconds of the longest tasks of a traced epoch."""
        found: dict[str, float] = {}
        for task, _, start_s, end_s in self.spans:
            found[task] = found.get(task, 0.0) + end_s - start_s
        return dict(sorted(found.items(), key=lambda item: -item[1])[:count])
