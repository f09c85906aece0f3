"""How much of the graph each worker gets: as much as the others, by its speed, until all are busy alike, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BALANCED_WITHIN = 0.02  # of the mean; the paper's epsilon is 1% of it, less than a profile knows
NUM_ROUNDS = 4
_STEP = 0.7  # a share's seconds grow more slowly than the share: a full step would overshoot


def equal_shares(num_workers: int) -> tuple[float, ...]:
    """The same for all."""
    return (1.0 / num_workers,) * num_workers


def shares_by_speed(whole_graph_s: Sequence[float]) -> tuple[float, ...]:
    """In proportion to speed: the inverse of each worker's seconds for the whole graph."""
    speed = 1.0 / np.asarray(whole_graph_s)
    return tuple((speed / speed.sum()).tolist())


def is_balanced(busy_s: Sequence[float]) -> bool:
    """Whether the busiest worker is hardly busier than the mean."""
    return max(busy_s) <= (1 + BALANCED_WITHIN) * float(np.mean(busy_s))


def refined_shares(shares: Sequence[float], busy_s: Sequence[float]) -> tuple[float, ...]:
    """Shares moved towards those with which all would be as busy, by what their partition made each busy for.

    Speeds alone leave out what a partition adds: halo rows, rows against edges, a network's port. (CaPGNN's
    RAPA balances by moving halos of a fixed partition, and names the lack of shares its limit, section 4.3.)

    Args:
        shares: of each worker [W]; one that has none gets none.
        busy_s: its predicted seconds of work with them [W], > 0.
    """
    wanted = np.asarray(shares) * (np.mean(busy_s) / np.asarray(busy_s)) ** _STEP
    return tuple((wanted / wanted.sum()).tolist())


def concentrated_shares(shares: Sequence[float]) -> list[tuple[float, ...]]:
    """The same shares for the workers that have most, and none for the others: of 1, 2, 4 ... workers.

    Exchanges end with the slowest port: a worker behind a slow link can cost more than it computes, and the more
    workers there are the more rows travel. No worker is left out of the run: see `gnnplan.planner.partition`.
    """
    order = np.argsort(-np.asarray(shares), kind="stable")
    counts = [2**power for power in range(len(shares).bit_length()) if 2**power < len(shares)]
    found = []
    for count in counts:
        kept = np.zeros(len(shares))
        kept[order[:count]] = np.asarray(shares)[order[:count]]
        found.append(tuple((kept / kept.sum()).tolist()))
    return found
