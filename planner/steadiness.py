"""Whether a machine was less steady while a plan ran than when it was profiled: then a miss is not the plan's."""

from __future__ import annotations

from gnnplan.planner.trace import Trace

_ENOUGH = 20  # epochs: of fewer, one in twenty is one
_TOLERATED = 0.1  # of the median epoch, beyond what was predicted


def unsteady_words(predicted: Trace, measured: Trace) -> str:
    """A sentence where the slowest of twenty measured epochs is much longer than predicted; else nothing.

    Neighbours on the same memory bus or cache slow a machine down without anybody counting it. Epochs then vary by more
    than the profile's spread lets them.
    """
    if not predicted.fluctuating or len(measured.epoch_s) < _ENOUGH or measured.num_members:
        return ""
    said = predicted.fluctuating.p95_s / predicted.fluctuating.p50_s - 1
    was = measured.epoch_range_s[1] / measured.median_epoch_s - 1 if measured.median_epoch_s else 0.0
    if was <= said + _TOLERATED:
        return ""
    return (
        f"one in twenty epochs took {was:.0%} more than the median, where {said:.0%} was predicted: the machine was "
        "less steady than when it was profiled, as where others use its memory or its caches; run it again when it is "
        "quiet"
    )
