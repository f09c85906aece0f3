"""What workers keep of their halos between epochs, and so which rows travel: one rule for planner and runtime."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from planner.program import Step
from profiles.contract import Contract

Travel = Literal["all", "fresh", "none"]
"""Which halo rows of a step are sent in an epoch: all, those that are not kept, or none."""


class CacheDecision(Contract):
    """Halo rows that workers keep between epochs; as it is by default they keep none.

    Everything follows from the decision and the number of the epoch, so sender and receiver never disagree.

    Args:
        refresh_interval: r. Embeddings are sent in every r-th epoch, beginning with the first, and reused in
            the others (1: sent in every epoch). What is fixed, the input features, is sent once, before training.
        keeps_features: rows of what is fixed are kept too.
        num_rows: halo vertices whose rows each worker keeps, those of the highest overlap ratio (none given: 0).
        fresh_counts: `fresh_counts[p][q]` rows that q does not keep go from worker p to q in every epoch.
        break_even_share: kept share of the halo rows from which on it saves time (None: nothing is kept).
    """

    refresh_interval: PositiveInt = 1
    keeps_features: bool = True
    num_rows: tuple[NonNegativeInt, ...] = ()
    fresh_counts: tuple[tuple[NonNegativeInt, ...], ...] = ()
    break_even_share: float | None = None

    @property
    def is_stale(self) -> bool:
        """Whether embeddings are reused, so that numbers differ from one device's."""
        return self.refresh_interval > 1 and any(self.num_rows)

    def refreshes(self, epoch: int) -> bool:
        """Whether all embeddings are sent in an epoch."""
        return epoch % self.refresh_interval == 0

    def keeps(self, step: Step) -> bool:
        """Whether some worker keeps halo rows of a step between epochs."""
        return any(self.num_rows) and (self.keeps_features if step.fixed else self.refresh_interval > 1)

    def travel(self, step: Step, *, refresh: bool) -> Travel:
        """What is sent of a step's halo, forward and backward alike."""
        if not self.keeps(step) or (refresh and not step.fixed):
            return "all"
        return "fresh" if any(map(any, self.fresh_counts)) else "none"


NO_CACHE = CacheDecision()
