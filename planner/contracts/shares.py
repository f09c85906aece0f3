"""Which shares of the graph are worth trying: by speed, and then what makes all workers as busy as each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.job_pins import Balance

BALANCED_WITHIN = 0.02  # of the mean; the paper's epsilon is 1% of it, less than a profile knows
_STEP = 0.7  # a share's seconds grow more slowly than the share: a full step would overshoot


def equal_shares(num_workers: int) -> tuple[float, ...]:
    """The same for all."""
    return (1.0 / num_workers,) * num_workers


def shares_by_speed(whole_graph_s: Sequence[float]) -> tuple[float, ...]:
    """In proportion to speed: the inverse of each worker's seconds for the whole graph."""
    if len(set(whole_graph_s)) == 1:
        return equal_shares(len(whole_graph_s))
    speed = 1.0 / np.asarray(whole_graph_s)
    return tuple((speed / speed.sum()).tolist())


def is_balanced(busy_s: np.ndarray) -> bool:
    """Whether the busiest worker is hardly busier than the mean."""
    return bool(busy_s.max() <= (1 + BALANCED_WITHIN) * busy_s.mean())


def refined_shares(shares: Sequence[float], busy_s: np.ndarray) -> tuple[float, ...]:
    """Shares moved towards those with which all would be as busy, by what their partition made each busy for.

    Speeds alone leave out what a partition adds: halo rows, rows against edges, a network's port. (CaPGNN's
    RAPA balances by moving halos of a fixed partition, and names the lack of shares its limit, section 4.3.)

    Args:
        shares: of each worker [W], > 0.
        busy_s: its predicted seconds of work with them [W], > 0.
    """
    wanted = np.asarray(shares) * (busy_s.mean() / busy_s) ** _STEP
    return tuple((wanted / wanted.sum()).tolist())


def first_shares(setting: Setting) -> tuple[Balance, tuple[float, ...]]:
    """What a layout begins with: equal shares where the job pins them, else by speed."""
    if setting.job.pin.balance == "equal":
        return "equal", equal_shares(setting.num_workers)
    return "speed", shares_by_speed(setting.rates_s)


def better_shares(so_far: Candidate, shares: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Shares worth trying next, of a candidate that has some; none where the job pins them or all are as busy."""
    setting = so_far.setting
    if setting.num_workers == 1 or setting.job.pin.balance in ("equal", "speed"):
        return
    for ports in (False, True):
        busy_s = so_far.busy_s(ports=ports)
        if not is_balanced(busy_s):
            yield refined_shares(shares, busy_s)
