"""Sustained timing: back-to-back calls over a time budget, median and interquartile range of groups of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from gnnplan.profiles.machine import CpuQuota

SWEPT_ELEMENTS = 2**22  # 16 MiB: what the operators of an epoch sweep out of the caches between two tasks
_MIN_REPEATS = 3
_GROUPS = 5
_PERIODS = 2  # of a quota, in each group
_LATE = 1.2  # times as long as the quota has it: then something else is in the way


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median and interquartile range over groups of calls, by their means, and the calls in all.

    What single calls vary by within a group averages out of the range; a group may be one call.
    """

    median_s: float
    spread_s: float
    repeats: int


def sustained(
    call: Callable[[], object], device: torch.device, *, budget_s: float, quota: CpuQuota | None = None
) -> Timing:
    """Times `call` back to back for about `budget_s`. Short calls are timed in groups, that count by their means.

    Under a quota a call takes in the long run what processor time it uses, over the share that it gets. So of a single
    thread that is timed: how much of a budget is spent standing still depends on where in a period it begins, and
    control groups have periods of 0.1 s. Several threads are timed over several periods, and so is one that others
    keep from its share.

    Args:
        quota: of this worker's threads.
    """
    call()  # warm-up: compilation, allocator, caches
    if quota is None:
        return _in_groups(partial(clocked, call, device), budget_s)
    if torch.get_num_threads() == 1:
        begun_s = time.perf_counter()
        found = _in_groups(partial(_sustained_s, call, quota.share), budget_s)
        unlucky_s = 2 * (1 - quota.share) * quota.period_s  # pauses more than in the long run
        if time.perf_counter() - begun_s <= _LATE * found.median_s * found.repeats + unlucky_s:
            return found
    return _in_groups(partial(clocked, call, device), max(budget_s, _GROUPS * _PERIODS * quota.period_s))


def _in_groups(clock: Callable[[int], float], budget_s: float) -> Timing:
    """Timings by a clock of some calls in a row."""
    first = clock(1)
    group = max(1, int(budget_s / _GROUPS / max(first, 1e-7)))
    samples = [first] if group == 1 else []
    spent = sum(samples)
    while len(samples) < _MIN_REPEATS or spent < budget_s:
        seconds = clock(group)
        samples.append(seconds / group)
        spent += seconds
    low, median, high = np.percentile(samples, [25, 50, 75])
    return Timing(float(median), float(high - low), len(samples) * group)


def _sustained_s(call: Callable[[], object], share: float, count: int) -> float:
    """Seconds of `count` calls in a row by one thread, if it may use a share of the time."""
    begun_s = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begun_s) / share


def in_turn(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """A call that is the next of `calls` every time.

    One operator on two sets of operands comes back to the first after as much else as it uses itself. An epoch comes
    back to no operand at once either; what fits the caches once but not twice is up to twice as fast by a call that
    repeats itself.
    """
    following = cycle(calls)
    return lambda: next(following)()


def clocked(call: Callable[[], object], device: torch.device, count: int) -> float:
    """Seconds of `count` calls in a row; on CUDA between two events."""
    if device.type == "cuda":
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3
    start_s = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start_s
