"""How far an epoch fluctuates when every task fluctuates as it was measured to."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.engine import compile_schedule, play_many
from gnnplan.planner.simulator.steady import epochs_to_play
from gnnplan.planner.simulator.tables import Ints

_UPPER_QUARTILE = NormalDist().inv_cdf(0.75)
_MAX_SPREADS_ABOVE_MEDIAN = 20.0
Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def log_deviation(middle_s: Numbers, spread_s: Numbers) -> Numbers:
    """Standard deviation of the logarithm of a lognormal with this median and this interquartile range.

    Its quartiles are median * exp(-+ z sigma): they lie 2 median sinh(z sigma) apart.
    """
    return np.arcsinh(spread_s / (2 * middle_s)) / _UPPER_QUARTILE


def sample_durations(schedule: Schedule, num_replicas: int, seed: int) -> Ints:
    """Draws the durations of every task in every replica: [R, T] nanoseconds (of processor time under a quota).

    Tasks are independent, but all of a group have one draw: a collective was timed at its slowest worker, so what it
    was seen to vary by is of all of them together.

    Lognormal with median `seconds` and interquartile range `spread_s`: positive, and skewed to the
    right as delays on a busy machine are. A collective's `seconds` are a mean (`gnnplan.profiles.collectives`): its
    draws are as wide by their logarithm and have that mean. Draws are cut at 20 spreads above `seconds`, which
    leaves the median and the quartiles as they are and keeps a task whose spread is many times
    its median from drawing hours. A task without spread, or with `seconds` 0, is constant. The
    first rows stay the same when `num_replicas` grows.

    Raises `ValueError` if a spread is negative or not finite, or as `compile_schedule` does.
    """
    assert num_replicas >= 0, num_replicas
    compiled = compile_schedule(schedule)
    constant_ns, share = compiled.duration_ns, compiled.share
    middle_s = np.array([task.seconds for task in schedule.tasks], dtype=np.float64)
    spread_s = np.array([task.spread_s for task in schedule.tasks], dtype=np.float64)
    for index in np.flatnonzero(~(np.isfinite(spread_s) & (spread_s >= 0)))[:1]:
        task = schedule.tasks[index]
        raise ValueError(f"w{task.worker} {task.key}: spread_s must be finite and >= 0, not {task.spread_s}")
    varying = np.flatnonzero((spread_s > 0) & (middle_s > 0))
    middle_s, spread_s, group = middle_s[varying], spread_s[varying], compiled.tables.group[varying]
    sigma = log_deviation(middle_s, spread_s)
    which, num_draws = _draws(group)
    drawn_s = np.random.default_rng(seed).standard_normal((num_replicas, num_draws))[:, which]
    np.multiply(drawn_s, sigma, out=drawn_s)
    drawn_s -= np.where(group >= 0, sigma**2 / 2, 0.0)  # the mean of a lognormal lies so far above its median
    np.exp(drawn_s, out=drawn_s)
    drawn_s *= middle_s
    np.minimum(drawn_s, middle_s + _MAX_SPREADS_ABOVE_MEDIAN * spread_s, out=drawn_s)
    duration_ns = np.tile(constant_ns, (num_replicas, 1))
    duration_ns[:, varying] = np.rint(np.multiply(drawn_s, 1e9 * share[varying], out=drawn_s))
    return duration_ns


def sample_phases(schedule: Schedule, num_replicas: int, seed: int) -> Ints:
    """Draws how much of every quota's period is over at the start: [R, resources] nanoseconds.

    Nothing sets the periods of different hosts to each other, and where they lie differs from run to run.
    """
    period_ns, drawn_for = np.zeros(schedule.num_resources), np.arange(schedule.num_resources)
    of_hosts: dict[int, int] = {}
    for resource, quota in schedule.quotas.items():
        if resource < period_ns.size and quota.share < 1:
            period_ns[resource] = quota.period_s * 1e9
            drawn_for[resource] = of_hosts.setdefault(quota.host, resource) if quota.host >= 0 else resource
    drawn = np.random.default_rng((seed, 1)).random((num_replicas, period_ns.size))
    return (drawn[:, drawn_for] * period_ns).astype(np.int64)


def sampled_epochs_s(schedule: Schedule, num_replicas: int, seed: int) -> NDArray[np.float64]:
    """Seconds of epochs whose tasks vary, `num_replicas` of them or a few more.

    Under a quota epochs are played on end, as many at a time as `epochs_to_play` says, with periods that begin at
    other moments in every replica. Tasks fluctuate independently of one another, and by their operators' spread as
    groups of calls had it: what slows a whole machine for a whole run, and what single calls vary by within a group,
    are not in these figures.

    Raises `ValueError` as `sample_durations` and `play_many` do.
    """
    assert num_replicas >= 1, num_replicas
    count = epochs_to_play(schedule)
    whole = schedule.repeated(count)
    num_plays = math.ceil(num_replicas / max(count - 1, 1))
    duration_ns, phase_ns = sample_durations(whole, num_plays, seed), sample_phases(whole, num_plays, seed)
    end_ns = play_many(compile_schedule(whole), duration_ns, count, phase_ns)
    return (np.diff(end_ns, axis=1) if count > 1 else end_ns).ravel() / 1e9


def percentiles(schedule: Schedule, num_replicas: int, seed: int) -> dict[str, float]:
    """Seconds of the median (`p50`) and the 95th percentile (`p95`) of the epochs of `sampled_epochs_s`."""
    p50, p95 = np.percentile(sampled_epochs_s(schedule, num_replicas, seed), [50, 95])
    return {"p50": float(p50), "p95": float(p95)}


def _draws(group: Ints) -> tuple[Ints, int]:
    """Which draw each task has, and how many there are: one a group, and one each for tasks without (-1)."""
    own = np.flatnonzero(group < 0)
    ids, which = np.unique(np.where(group < 0, -1, group), return_inverse=True)
    which[own] = ids.size + np.arange(own.size)
    return which, ids.size + own.size
