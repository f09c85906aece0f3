"""Prunes halo vertices until all workers cost alike (CaPGNN, algorithms 2 and 3)."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from gnnplan.planner.rapa.pairs import HaloPairs
from gnnplan.planner.rapa.seconds import Cost, Fits

EPSILON = 0.01  # of the mean cost: the spread at which it is balanced enough


def adjust_halos(pairs: HaloPairs, cost: Cost, fits: Fits, at_work: np.ndarray | None = None) -> np.ndarray:
    """bool [K]: the pairs kept (algorithm 2).

    Passes over all workers until their costs spread by less than `EPSILON` or a pass prunes nothing.
    Unlike the paper's, it looks before the first pass: what is balanced and fits is left as it is.

    Args:
        at_work: bool [W], workers that are to cost alike (None: all); of others, that were left next to nothing, no
            mean knows, and their halos stay.
    """
    kept, workers = pairs.everything, np.arange(pairs.num_workers)
    workers = workers if at_work is None else workers[at_work]
    while not _is_done(pairs, kept, cost, fits, workers):
        pruned = _adjust_once(pairs, kept, cost, fits, workers)
        if np.array_equal(pruned, kept):
            break
        kept = pruned
    return kept


def _is_done(pairs: HaloPairs, kept: np.ndarray, cost: Cost, fits: Fits, workers: np.ndarray) -> bool:
    loads = pairs.loads(kept)
    costs = cost(loads)[workers]
    return costs.std() < EPSILON * costs.mean() and all(fits(int(worker), loads) for worker in workers)


def _adjust_once(pairs: HaloPairs, kept: np.ndarray, cost: Cost, fits: Fits, workers: np.ndarray) -> np.ndarray:
    """One pass, the most burdened worker first, by what it computes and what it moves (algorithm 3)."""
    for worker in workers[np.argsort(-cost(pairs.loads(kept))[workers], kind="stable")]:
        kept = _adjust_worker(pairs, kept, int(worker), cost, fits, workers)
    return kept


def _adjust_worker(
    pairs: HaloPairs, kept: np.ndarray, worker: int, cost: Cost, fits: Fits, workers: np.ndarray
) -> np.ndarray:
    """The worker's vertices of least influence pruned, until half its excess over the mean is gone and it fits.

    All of them where that is never reached. The paper's loop ends at the mean also where memory is still
    short, and never begins below it; here memory is a reason of its own.
    """
    loads = pairs.loads(kept)
    costs = cost(loads)
    mean = costs[workers].mean()
    if costs[worker] <= mean and fits(worker, loads):
        return kept
    goal = (costs[worker] + mean) / 2
    own = np.flatnonzero(kept & (pairs.worker == worker))
    ranked = own[np.argsort(pairs.influence[own], kind="stable")]

    def is_enough(num_pruned: int) -> bool:
        fewer = pairs.loads(_without(kept, ranked[:num_pruned]))
        return bool(cost(fewer)[worker] <= goal) and fits(worker, fewer)

    # Where costs fall with every vertex pruned, halving finds the first number that is enough. Measured curves may rise
    # for a vertex or two: then it ends at some number that is enough, or at all.
    first = 1 + bisect_left(range(1, len(ranked) + 1), True, key=is_enough)
    return _without(kept, ranked[:first])


def _without(kept: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    fewer = kept.copy()
    fewer[numbers] = False
    return fewer
