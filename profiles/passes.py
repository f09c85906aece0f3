"""Several passes over all that is timed: machines slow down for seconds at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnnplan.profiles.measure import Timing

Probe = Callable[[], tuple[Timing, ...]]
_AGREEMENT = 0.15


def in_passes(
    probes: Sequence[Probe], num_passes: int, any_worker: Callable[[list[bool]], list[bool]]
) -> list[tuple[Timing, ...]]:
    """Calls every probe `num_passes` times, once a pass, and once more those whose first timing did not repeat.

    One pass takes a second in which the machine was slow for the price of what it timed meanwhile. Where two
    passes agree their mean counts, otherwise the median of all. A probe that returns nothing is left out.

    Args:
        num_passes: at least 1; disagreement is looked for from 2 on.
        any_worker: of one flag per probe, whether any worker set it; all workers must make the same calls.
    """
    passes = [[probe() for probe in probes]]
    for _ in range(num_passes - 1):
        passes.append([probe() if first else () for probe, first in zip(probes, passes[0], strict=True)])
    taken = [[timings for timings in repeats if timings] for repeats in zip(*passes, strict=True)]
    unsure = any_worker([bool(repeats) and not _agree([timings[0] for timings in repeats]) for repeats in taken])
    for probe, repeats, again in zip(probes, taken, unsure, strict=True):
        if again:
            repeats.append(probe())
    return [tuple(_merged(same) for same in zip(*repeats, strict=True)) for repeats in taken]


def _agree(timings: Sequence[Timing]) -> bool:
    medians = [timing.median_s for timing in timings]
    return max(medians) - min(medians) <= _AGREEMENT * max(medians)


def _merged(timings: Sequence[Timing]) -> Timing:
    medians = [timing.median_s for timing in timings]
    middle = np.mean(medians) if _agree(timings) else np.median(medians)
    return Timing(
        float(middle), float(np.mean([timing.spread_s for timing in timings])), sum(t.repeats for t in timings)
    )
