"""Halo vertices that were pruned for nothing: with them, too, nobody takes longer than whoever takes longest."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from gnnplan.planner.rapa.pairs import HaloPairs
from gnnplan.planner.rapa.seconds import Cost, Fits

_ROUNDING = 1e-9


def give_back(pairs: HaloPairs, cost: Cost, fits: Fits, kept: np.ndarray) -> np.ndarray:
    """bool [K]: a choice with what can be kept beside it; of every worker the most influential first.

    CaPGNN's algorithms prune every worker above the mean. Where one has nothing more to prune it stays above, and the
    others prune for a mean that no epoch will see. Here they get back what leaves the largest cost as it is, and
    every worker within its memory.
    """
    limit = cost(pairs.loads(kept)).max() * (1 + _ROUNDING)
    for worker in range(pairs.num_workers):
        pruned = np.flatnonzero(~kept & (pairs.worker == worker))
        ranked = pruned[np.argsort(-pairs.influence[pruned], kind="stable")]
        kept = _with_most(pairs, cost, fits, kept, ranked, limit)
    return kept


def _with_most(
    pairs: HaloPairs, cost: Cost, fits: Fits, kept: np.ndarray, ranked: np.ndarray, limit: float
) -> np.ndarray:
    """The choice with as many of the ranked as the limit and memory allow.

    As in `adjust_halos`, measured curves may rise and fall by a vertex or two: then it is some number that is allowed.
    """

    def with_first(count: int) -> np.ndarray:
        more = kept.copy()
        more[ranked[:count]] = True
        return more

    def is_too_much(count: int) -> bool:
        loads = pairs.loads(with_first(count))
        return bool(cost(loads).max() > limit) or not all(fits(worker, loads) for worker in range(pairs.num_workers))

    return with_first(bisect_left(range(1, len(ranked) + 1), True, key=is_too_much))
