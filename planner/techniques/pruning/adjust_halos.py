"""Prunes halo vertices until all workers cost alike (CaPGNN, algorithms 2 and 3)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from gnnplan.planner.techniques.pruning.pairs import HaloPairs, Loads

EPSILON = 0.01  # of the mean cost: the spread at which it is balanced enough

Cost = Callable[[Loads], np.ndarray]
"""What an epoch costs every worker, float64 [W], under some loads: the lambda of equation 15."""
Fits = Callable[[int, Loads], bool]
"""Whether a worker has the memory for its part of some loads."""


def adjust_halos(pairs: HaloPairs, cost: Cost, fits: Fits) -> np.ndarray:
    """bool [K]: the pairs kept (algorithm 2).

    Passes over all workers until their costs spread by less than `EPSILON` or a pass prunes nothing.
    Unlike the paper's, it looks before the first pass: what is balanced and fits is left as it is.
    """
    kept = pairs.everything
    while not _is_done(pairs, kept, cost, fits):
        pruned = _adjust_once(pairs, kept, cost, fits)
        if np.array_equal(pruned, kept):
            break
        kept = pruned
    return kept


def _is_done(pairs: HaloPairs, kept: np.ndarray, cost: Cost, fits: Fits) -> bool:
    loads = pairs.loads(kept)
    costs = cost(loads)
    return costs.std() < EPSILON * costs.mean() and all(fits(worker, loads) for worker in range(pairs.num_workers))


def _adjust_once(pairs: HaloPairs, kept: np.ndarray, cost: Cost, fits: Fits) -> np.ndarray:
    """One pass, the most burdened worker first, by what it computes and what it moves (algorithm 3)."""
    for worker in np.argsort(-cost(pairs.loads(kept)), kind="stable"):
        kept = _adjust_worker(pairs, kept, int(worker), cost, fits)
    return kept


def _adjust_worker(pairs: HaloPairs, kept: np.ndarray, worker: int, cost: Cost, fits: Fits) -> np.ndarray:
    """The worker's vertices of least influence pruned, until half its excess over the mean is gone and it fits.

    All of them where that is never reached. The paper's loop ends at the mean also where memory is still
    short, and never begins below it; here memory is a reason of its own.
    """
    loads = pairs.loads(kept)
    costs = cost(loads)
    if costs[worker] <= costs.mean() and fits(worker, loads):
        return kept
    goal = (costs[worker] + costs.mean()) / 2
    ranked = pairs.ranked(worker, kept)

    def is_enough(num_pruned: int) -> bool:
        fewer = pairs.changed(loads, worker, ranked[:num_pruned], -1)
        return bool(cost(fewer)[worker] <= goal) and fits(worker, fewer)

    # Where costs fall with every vertex pruned, halving finds the first number that is enough. Measured curves may rise
    # for a vertex or two: then it ends at some number that is enough, or at all.
    first = 1 + bisect_left(range(1, len(ranked) + 1), True, key=is_enough)
    fewer = kept.copy()
    fewer[ranked[:first]] = False
    return fewer
