"""Halo vertices that were pruned for nothing: with them, too, nobody takes longer than whoever takes longest."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from gnnplan.planner.techniques.pruning.adjust_halos import Cost, Fits
from gnnplan.planner.techniques.pruning.pairs import HaloPairs

_ROUNDING = 1e-9


def restore(pairs: HaloPairs, cost: Cost, fits: Fits, kept: np.ndarray) -> np.ndarray:
    """bool [K]: a choice with what can be kept beside it; of every worker the most influential first.

    CaPGNN's algorithms prune every worker above the mean. Where one has nothing more to prune it stays above, and the
    others prune for a mean that no epoch will see. Here they get back what leaves the largest cost as it is, and
    every worker within its memory.
    """
    limit = cost(pairs.loads(kept)).max() * (1 + _ROUNDING)
    for worker in range(pairs.num_workers):
        kept = _with_most(pairs, cost, fits, kept, worker, limit)
    return kept


def _with_most(pairs: HaloPairs, cost: Cost, fits: Fits, kept: np.ndarray, worker: int, limit: float) -> np.ndarray:
    """The choice with as many of a worker's pruned vertices as the limit and memory allow.

    As in `adjust_halos`, measured curves may rise and fall by a vertex or two: then it is some number that is allowed.
    """
    loads, ranked = pairs.loads(kept), pairs.ranked(worker, ~kept)[::-1]

    def is_too_much(count: int) -> bool:
        held = pairs.changed(loads, worker, ranked[:count], 1)
        return bool(cost(held).max() > limit) or not all(fits(each, held) for each in range(pairs.num_workers))

    count = bisect_left(range(1, len(ranked) + 1), True, key=is_too_much)
    more = kept.copy()
    more[ranked[:count]] = True
    return more
