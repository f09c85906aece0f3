"""Sustained timing: back-to-back calls over a time budget, median and interquartile range of groups of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch

SWEPT_ELEMENTS = 2**22  # 16 MiB: what the operators of an epoch sweep out of the caches between two tasks
_MIN_REPEATS = 3
_GROUPS = 5


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median and interquartile range over groups of calls, by their means, and the calls in all.

    What single calls vary by within a group averages out of the range; a group may be one call.
    """

    median_s: float
    spread_s: float
    repeats: int


def sustained(call: Callable[[], object], device: torch.device, *, budget_s: float) -> Timing:
    """Times `call` back to back for about `budget_s`.

    Timed alone after a pause, a call under a CPU quota spends time saved up while it waited and
    looks too fast; back to back it does not. Short calls are timed in groups of a share of the
    budget, which under a quota must hold several of its periods; a group counts by its mean.
    """
    call()  # warm-up: compilation, allocator, caches
    first = clocked(call, device, 1)
    group = max(1, int(budget_s / _GROUPS / max(first, 1e-7)))
    samples = [first] if group == 1 else []
    spent = sum(samples)
    while len(samples) < _MIN_REPEATS or spent < budget_s:
        seconds = clocked(call, device, group)
        samples.append(seconds / group)
        spent += seconds
    low, median, high = np.percentile(samples, [25, 50, 75])
    return Timing(float(median), float(high - low), len(samples) * group)


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
