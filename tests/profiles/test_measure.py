"""Sustained timing: repeats, groups and spread, on a clock that the test turns."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles import measure
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.measure import clocked, in_turn, sustained

CPU = torch.device("cpu")


class Clock:
    """Stands in for `time` in gnnplan.profiles.measure; a call advances it."""

    def __init__(self, *call_s, used_s=0.0):
        self.now_s, self.calls, self._call_s = 0.0, 0, call_s
        self.used_s, self._used_s = 0.0, used_s

    def perf_counter(self):
        return self.now_s

    def process_time(self):
        return self.used_s

    def call(self):
        self.used_s += self._used_s
        self.now_s += self._call_s[min(self.calls, len(self._call_s) - 1)]
        self.calls += 1


def timed(clock, budget_s, *, quota=None, num_threads=1):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "time", clock)
        patch.setattr(torch, "get_num_threads", lambda: num_threads)
        return sustained(clock.call, CPU, budget_s=budget_s, quota=quota)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 2.0), st.floats(0.01, 0.2))
def test_steady_call_is_timed_exactly(call_s, budget_s):
    """A call of constant length has that median and no spread, however calls are grouped."""
    clock = Clock(call_s)
    timing = timed(clock, budget_s)
    assert timing.median_s == pytest.approx(call_s, rel=1e-6)
    assert timing.spread_s == pytest.approx(0.0, abs=1e-6 * call_s)
    # The warm-up is not counted, nor the first look where calls are short enough to group.
    assert clock.calls - timing.repeats in (1, 2)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 2.0), st.floats(0.01, 0.2))
def test_budget_is_kept(call_s, budget_s):
    """Timing stops within one group of the budget, but never before three repeats."""
    clock = Clock(call_s)
    timing = timed(clock, budget_s)
    assert timing.repeats >= 3
    assert clock.now_s <= 2 * call_s + budget_s + 3 * max(budget_s / 5, call_s) + 1e-9


@pytest.mark.parametrize("period_s", [0.01, 0.1])
def test_under_a_quota_standing_still_is_spread_evenly(period_s):
    """What a thread uses of the processor counts, over its share: no matter how often the budget saw it stand still."""
    quota = CpuQuota(share=0.25, period_s=period_s)
    assert timed(Clock(0.002, used_s=0.001), 0.15, quota=quota).median_s == pytest.approx(0.004)


def test_a_thread_that_does_not_get_its_share_is_timed_by_elapsed_time():
    """Others take the processor, which no quota says."""
    clock = Clock(0.02, used_s=0.001)
    assert timed(clock, 0.15, quota=CpuQuota(share=0.25, period_s=0.01)).median_s == pytest.approx(0.02)


def test_several_threads_are_timed_over_several_periods():
    """Which of them worked when nobody knows, so elapsed time counts, and the budget grows."""
    clock = Clock(0.002, used_s=0.001)
    timing = timed(clock, 0.15, quota=CpuQuota(share=0.25, period_s=0.1), num_threads=4)
    assert timing.median_s == pytest.approx(0.002)
    assert clock.now_s > 1.0


def test_warm_up_is_left_out():
    """A first call a thousand times slower, as compilation makes it, leaves the figures alone."""
    timing = timed(Clock(10.0, 0.01), 0.1)
    assert timing.median_s == pytest.approx(0.01)
    assert timing.spread_s == pytest.approx(0.0, abs=1e-9)


def test_spread_is_the_interquartile_range():
    """Calls that take 1, 2, 3, 4 and 5 seconds have median 3 and quartiles 2 and 4."""
    timing = timed(Clock(9.0, 3.0, 1.0, 2.0, 4.0, 5.0), 12.0)
    assert (timing.median_s, timing.spread_s, timing.repeats) == (3.0, 2.0, 5)


def test_short_calls_are_grouped():
    """A microsecond call is timed in groups, so the clock is read far less often than it is called."""
    clock, reads = Clock(1e-6), []
    clock.perf_counter = lambda: (reads.append(0), clock.now_s)[1]
    timing = timed(clock, 0.02)
    assert timing.repeats > 10 * len(reads)


def test_clocked_makes_the_calls_it_is_asked_for():
    """clocked(call, device, n) calls n times and returns a non-negative time."""
    calls = []
    assert clocked(lambda: calls.append(0), CPU, 7) >= 0
    assert len(calls) == 7


def test_calls_in_turn():
    """Every call is the next one's turn, the first again after the last."""
    made = []
    call = in_turn([lambda: made.append("a"), lambda: made.append("b")])
    for _ in range(5):
        call()
    assert made == ["a", "b", "a", "b", "a"]
