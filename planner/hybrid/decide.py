"""The planner's decision for one worker: every method, judged by true cost and by one bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnnplan.planner.hybrid.adjust import Adjuster
from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.dependencies import Charge, Dependencies, Rates
from gnnplan.planner.hybrid.lagrangian import relax
from gnnplan.planner.hybrid.levels import Levels
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood

Method = Literal["prefixes", "greedy", "cut"]


@dataclass(frozen=True)
class HybridDecision:
    """Which dependencies of a worker are cached; all others are communicated.

    Args:
        cached: bool [n].
        saved_s: seconds an epoch, against communicating everything; every replica is paid once.
        bound_s: no choice within the budget saves more.
        communicated_s: what communicating everything takes.
        num_bytes: held, of `budget_bytes`.
        method: that found it: the online prefixes, lazy greedy, or minimum cuts; all with what still fits.
    """

    cached: np.ndarray
    saved_s: float
    bound_s: float
    communicated_s: float
    num_bytes: float
    budget_bytes: float
    method: Method

    @property
    def gap(self) -> float:
        """Share of the bound that is not saved: 0 is optimal, 1 saves nothing."""
        return 1 - self.saved_s / self.bound_s if self.bound_s > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{int(self.cached.sum()):,} of {len(self.cached):,} dependencies cached ({self.method}) in "
            f"{self.num_bytes:,.0f} of {self.budget_bytes:,.0f} bytes: saves {self.saved_s:.3g} of "
            f"{self.communicated_s:.3g} s an epoch, at most {self.bound_s:.3g} s possible (gap {self.gap:.1%})"
        )


def decide(
    near: Neighbourhood, levels: Levels, dependencies: Dependencies, rates: Rates, budget_bytes: float
) -> HybridDecision:
    """The best of the online prefixes, lazy greedy in two orders and minimum cuts, each filled up."""
    closure = build_closure(near, levels, dependencies, rates)
    adjusted = Adjuster(dependencies, budget_bytes, rates).adjust(rates)
    relaxed = relax(closure, budget_bytes)
    alone, shared = (_by_density(dependencies, rates, charge) for charge in (dependencies.alone, dependencies.shared))
    nothing = Held(closure, np.zeros(len(closure.gain_s), bool))
    found: list[tuple[Held, Method]] = [
        (Held.of(closure, adjusted.cached()).grow(alone, budget_bytes), "prefixes"),
        (nothing.grow(alone, budget_bytes), "greedy"),
        (nothing.grow(shared, budget_bytes), "greedy"),
        (relaxed.held.grow(shared, budget_bytes), "cut"),
    ]
    held, method = max(found, key=lambda each: each[0].saved_s)
    return HybridDecision(
        cached=held.cached,
        saved_s=held.saved_s,
        bound_s=max(held.saved_s, min(relaxed.bound_s, adjusted.bound_s)),
        communicated_s=float(dependencies.communicated_s(rates).sum()),
        num_bytes=held.num_bytes,
        budget_bytes=budget_bytes,
        method=method,
    )


def _by_density(dependencies: Dependencies, rates: Rates, charge: Charge) -> np.ndarray:
    """int64 [n]: the most benefit per byte first."""
    density_s = (dependencies.communicated_s(rates) - charge.seconds(rates)) / charge.num_bytes
    return np.argsort(-density_s, kind="stable")
