"""The online half: which dependencies to cache in the next epoch, from this epoch's rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.hybrid.dependencies import Dependencies, Rates
from gnnplan.planner.hybrid.prefixes import bound_s, one_price
from gnnplan.planner.hybrid.ranking import Ranking, rank

_MAX_DRIFT = 0.1  # of T_e / T_v since the last sort: no cost is then off by more


@dataclass(frozen=True)
class Adjustment:
    """What to cache in the next epoch.

    Args:
        ranking: whose prefixes are cached.
        counts: int64 [g], their lengths.
        saved_s: seconds an epoch saved at least, against communicating everything.
        bound_s: no choice within the budget saves more, overlaps counted.
        num_bytes: held at most.
        sorted_again: T_v and T_e had moved out of proportion.
    """

    ranking: Ranking
    counts: np.ndarray
    saved_s: float
    bound_s: float
    num_bytes: float
    sorted_again: bool

    @property
    def gap(self) -> float:
        """Share of the bound that is not saved: 0 is optimal, 1 saves nothing."""
        return 1 - self.saved_s / self.bound_s if self.bound_s > 0 else 0.0

    @property
    def num_cached(self) -> int:
        """How many dependencies are cached."""
        return int(self.counts.sum())

    def cached(self) -> np.ndarray:
        """int64 [num_cached], the dependencies to cache; all others are communicated."""
        return self.ranking.chosen(self.counts)

    def __str__(self) -> str:
        return (
            f"{self.num_cached:,} of {len(self.ranking.order):,} dependencies cached in {self.num_bytes:,.0f} bytes: "
            f"saves {self.saved_s:.3g} s an epoch, at most {self.bound_s:.3g} s possible (gap {self.gap:.1%})"
        )


class Adjuster:
    """A worker's choice between caching and communicating, made anew as its rates change.

    A step takes O(m log(n / m)) for n dependencies on m owners, times the levels, the size classes (at most
    four a doubling of bytes) and the bisections of the price; O(n log n) where it sorts again.

    Args:
        budget_bytes: that the replicas and what they are made from may take.
        rates: expected, to sort by.
    """

    def __init__(self, dependencies: Dependencies, budget_bytes: float, rates: Rates) -> None:
        assert budget_bytes >= 0, budget_bytes
        self._dependencies = dependencies
        self._budget_bytes = budget_bytes
        self._sort(rates)

    def adjust(self, rates: Rates, bound_rates: Rates | None = None) -> Adjustment:
        """The set for the next epoch if it goes as this one went.

        Args:
            bound_rates: at which the bound holds, where those to choose by are smoothed (None: the same).
        """
        must_sort = self._alone.drift(rates) > _MAX_DRIFT
        if must_sort:
            self._sort(rates)
        counts = one_price(self._alone, rates, self._budget_bytes)
        saved_s = self._alone.saved_s(rates, counts)
        most_s = bound_s(self._shared, bound_rates or rates, self._budget_bytes)
        return Adjustment(
            ranking=self._alone,
            counts=counts,
            saved_s=saved_s,
            bound_s=most_s if bound_rates else max(saved_s, most_s),
            num_bytes=self._alone.num_bytes(counts),
            sorted_again=must_sort,
        )

    def _sort(self, rates: Rates) -> None:
        self._alone = rank(self._dependencies, self._dependencies.alone, rates, self._budget_bytes)
        self._shared = rank(self._dependencies, self._dependencies.shared, rates, self._budget_bytes)
