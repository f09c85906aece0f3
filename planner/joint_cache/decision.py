"""What workers keep of their halos between epochs, and so which rows travel: one rule for planner and runtime."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from gnnplan.planner.job import RefreshInterval
from gnnplan.planner.steps import Step
from gnnplan.profiles.contract import Contract

Travel = Literal["all", "fresh", "none"]
"""Which halo rows of a step are sent in an epoch: all, those that are not kept, or none."""


class RegionDecision(Contract):
    """Halo rows that the workers of each host keep together, in memory that they share.

    Args:
        num_rows: vertices in the region of each host, by its index.
        device_rows: vertices that fit each worker's device; which rows the regions have follows from these.
        written_rows: rows that each worker writes where all are sent.
        sent_counts: `sent_counts[p][q]` rows that then go from worker p to q: to a host each row of its region once.
    """

    num_rows: tuple[NonNegativeInt, ...]
    device_rows: tuple[NonNegativeInt, ...]
    written_rows: tuple[NonNegativeInt, ...]
    sent_counts: tuple[tuple[NonNegativeInt, ...], ...]


class CacheDecision(Contract):
    """Halo rows that workers keep between epochs; as it is by default they keep none.

    Everything follows from the decision and the number of the epoch, so sender and receiver never disagree.

    Args:
        refresh_interval: r. Embeddings are sent in every r-th epoch, beginning with the first, and reused in
            the others (1: sent in every epoch). What is fixed, the input features, is sent once, before training.
        keeps_features: rows of what is fixed are kept too.
        num_rows: halo vertices whose rows each worker keeps on its device, those of the highest overlap ratio that are
            not in its host's region (none given: 0).
        fresh_counts: `fresh_counts[p][q]` rows that q does not keep go from worker p to q in every epoch.
        break_even_share: share of the halo rows kept on devices from which on it saves time (None: none are).
        region: what hosts keep for their workers (None: nothing).
    """

    refresh_interval: RefreshInterval = 1
    keeps_features: bool = True
    num_rows: tuple[NonNegativeInt, ...] = ()
    fresh_counts: tuple[tuple[NonNegativeInt, ...], ...] = ()
    break_even_share: float | None = None
    region: RegionDecision | None = None

    @property
    def keeps_any(self) -> bool:
        """Whether any row is kept, on a device or by a host."""
        return any(self.num_rows) or self.region is not None

    @property
    def has_fresh(self) -> bool:
        """Whether any row is not kept."""
        return any(map(any, self.fresh_counts))

    @property
    def is_stale(self) -> bool:
        """Whether embeddings are reused, so that numbers differ from one device's."""
        return self.refresh_interval > 1 and self.keeps_any

    def refreshes(self, epoch: int) -> bool:
        """Whether all embeddings are sent in an epoch."""
        return epoch % self.refresh_interval == 0

    def keeps(self, step: Step) -> bool:
        """Whether some worker keeps halo rows of a step between epochs."""
        return self.keeps_any and (self.keeps_features if step.fixed else self.refresh_interval > 1)

    def shares(self, step: Step) -> bool:
        """Whether hosts keep some of them for their workers."""
        return self.region is not None and self.keeps(step)

    def travel(self, step: Step, *, refresh: bool) -> Travel:
        """What is sent of a step's halo, forward and backward alike."""
        if not self.keeps(step) or (refresh and not step.fixed):
            return "all"
        return "fresh" if self.has_fresh else "none"

    def lets_overlap(self, step: Step, *, refresh: bool) -> bool:
        """Whether halo rows travel on their own: not where none do, nor where a host's workers meet over them."""
        return not self.shares(step) and self.travel(step, refresh=refresh) != "none"


NO_CACHE = CacheDecision()
