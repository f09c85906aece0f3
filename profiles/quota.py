"""A limit on processor time: under one a thread stands still at the end of every period."""

from __future__ import annotations

import time

import numpy as np

from gnnplan.profiles.cgroups import core_limit
from gnnplan.profiles.machine import CpuQuota

_SPIN_S = 1.2  # a dozen of the longest usual periods, 0.1 s
_STALL_S = 0.5e-3
_MIN_STALLS = 6
_MOST_UNEVEN = 0.25


def find_cpu_quota(num_workers: int, num_threads: int) -> CpuQuota | None:
    """The quota that limits this process, or None; may take a second.

    Control groups say it where they can be read. What limits them from outside, as another container or
    a hypervisor does, shows by spinning, for which workers that share it must call this at the same time;
    a quota of more than one core is not found by it, for one thread alone cannot use it up.

    Args:
        num_workers: of this host, which share it evenly.
        num_threads: of a worker, which use the quota up that many times as fast as one.
    """
    limit = core_limit()
    if limit is None:
        spun = quota_of(_stalls(_SPIN_S))
        return spun and CpuQuota(share=spun.share / num_threads, period_s=spun.period_s)
    share = limit.num_cores / (num_workers * num_threads)
    return CpuQuota(share=share, period_s=limit.period_s) if share < 1 else None


def quota_of(stalls: list[tuple[float, float]]) -> CpuQuota | None:
    """The quota behind stalls (begin, end) seconds; None where they are few or do not come at even times.

    A period begins where a stall ends. Now and then another process takes the core for a moment, so
    the period is a median and a stall in ten may be off.
    """
    long = [(begin, end) for begin, end in stalls if end - begin > _STALL_S]
    if len(long) < _MIN_STALLS:
        return None
    periods = np.diff([end for _, end in long])
    low, period_s, high = np.percentile(periods, [20, 50, 80])
    if high - low > _MOST_UNEVEN * period_s:
        return None
    first_s, last_s = long[0][1], long[-1][1]
    stood_s = sum(end - begin for begin, end in long[1:])
    share = 1 - stood_s / (last_s - first_s)
    return CpuQuota(share=float(share), period_s=float(period_s)) if 0 < share < 1 else None


def _stalls(spin_s: float) -> list[tuple[float, float]]:
    """Spins and returns the moments in which it stood still, (begin, end) seconds from its start."""
    stalls = []
    start_s = before_s = time.perf_counter()
    while before_s - start_s < spin_s:
        now_s = time.perf_counter()
        if now_s - before_s > _STALL_S:
            stalls.append((before_s - start_s, now_s - start_s))
        before_s = now_s
    return stalls
