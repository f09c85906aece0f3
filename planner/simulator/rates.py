"""When work is done on a resource: its rate changes at moments, or a quota lets it run in a part of every period."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _piece_at(moment, change_ns, resource):
    """Which of a resource's rates holds at a moment."""
    low, high = 0, change_ns.shape[1] - 1
    while low < high:
        middle = (low + high) >> 1
        if change_ns[resource, middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def end_of_work(now, work_ns, change_ns, share, resource):
    """When work that takes `work_ns` at the fair rate and begins now is done."""
    piece, work = _piece_at(now, change_ns, resource), float(work_ns)
    while work > (change_ns[resource, piece] - now) * share[resource, piece]:
        work -= (change_ns[resource, piece] - now) * share[resource, piece]
        now = change_ns[resource, piece]
        piece += 1
    return now + int(np.rint(work / share[resource, piece]))


@njit(cache=True, nogil=True)
def end_under_quota(now, work_ns, quota, until_ns, period_ns, phase_ns, period_of, used_ns, resource):
    """When `work_ns` of processor time that begins now is done, if each period has `quota` of it; and what is left.

    Something is left where it lasts into a period that begins at `until_ns` or later: the first of them begins then.
    What earlier tasks used of the current period is gone; what they left is not carried over.
    """
    length, phase = period_ns[resource], phase_ns[resource]
    now += phase
    period, used = now // length, 0
    if period_of[resource] >= period:  # later where a charge has used up periods to come
        period, used = period_of[resource], used_ns[resource]
        now = max(now, period * length)
    left = min(quota - used, (period + 1) * length - now)
    if work_ns <= left:
        end, used, work_ns = now + work_ns, used + work_ns, 0
    else:
        work_ns -= left
        num_full = (work_ns - 1) // quota
        if (period + 1 + num_full) * length - phase < until_ns:
            period += 1 + num_full
            used = work_ns - num_full * quota
            end, work_ns = period * length + used, 0
        else:
            first = -((-until_ns - phase) // length)
            work_ns -= (first - period - 1) * quota
            period, end, used = first, first * length, 0
    period_of[resource] = period
    used_ns[resource] = used
    return end - phase, work_ns


@njit(cache=True, nogil=True)
def end_at_rates(now, work_ns, quota_ns, period_ns, phase_ns, period_of, used_ns, change_ns, share, resource):
    """When work that takes `work_ns` at the fair rate, or so much processor time under a quota, is done if begun now.

    Each period has the share of the quota that the rate has of the fair one at the period's begin.
    """
    if quota_ns[resource] == 0:
        return end_of_work(now, work_ns, change_ns, share, resource)
    while True:
        period = max((now + phase_ns[resource]) // period_ns[resource], period_of[resource])
        piece = _piece_at(period * period_ns[resource] - phase_ns[resource], change_ns, resource)
        quota = max(1, int(np.rint(quota_ns[resource] * share[resource, piece])))
        until_ns = change_ns[resource, piece]
        now, work_ns = end_under_quota(now, work_ns, quota, until_ns, period_ns, phase_ns, period_of, used_ns, resource)
        if work_ns == 0:
            return now
