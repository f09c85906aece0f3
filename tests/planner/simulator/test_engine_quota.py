"""A resource under a quota: so much processor time in every period, and what is left of it is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_bound import lower_bound

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.simulator.montecarlo import sample_durations

PERIOD_NS = 10_000
NS = 1e-9


def schedule_of(*steps, share, gaps=()):
    """Tasks of `steps` sustained ns one after another on resource 0 under a quota, with pauses on resource 1."""
    schedule = Schedule(1, quotas={0: Quota(share, PERIOD_NS * NS)})
    last = ()
    for index, step in enumerate(steps):
        if index < len(gaps) and gaps[index]:
            last = (schedule.add(Task(f"gap{index}", 0, "communicate", gaps[index] * NS, 1, last)),)
        last = (schedule.add(Task(f"t{index}", 0, "compute", step * NS, 0, last)),)
    return schedule


def by_stepping(compiled, quota_ns):
    """End times by letting every nanosecond pass, for tasks that follow one another."""
    ends, now, period, used = [], 0, -1, 0
    for resource, work in zip(compiled.tables.resource, compiled.duration_ns):
        while work:
            if now // PERIOD_NS != period:
                period, used = now // PERIOD_NS, 0
            if resource == 1 or used < quota_ns:
                work -= 1
                used += resource == 0
            now += 1
        ends.append(now)
    return ends


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 30_000), min_size=1, max_size=4),
    st.lists(st.integers(0, 12_000), max_size=4),
    st.sampled_from([0.1, 0.25, 0.4, 0.8, 1.0]),
)
def test_end_times_equal_stepping_through_every_nanosecond(steps, gaps, share):
    """The jump over whole periods ends where a nanosecond at a time ends."""
    compiled = compile_schedule(schedule_of(*steps, share=share, gaps=gaps))
    assert play(compiled).end_ns.tolist() == by_stepping(compiled, share * PERIOD_NS)


def test_sustained_work_takes_its_sustained_seconds():
    """Over many periods a task takes what it was measured to take, to within one period."""
    for share in (0.2, 0.5, 0.9):
        makespan_ns = play(compile_schedule(schedule_of(1_000_000, share=share))).makespan_ns
        assert abs(makespan_ns - 1_000_000) <= PERIOD_NS


def test_short_work_after_a_pause_runs_at_full_speed():
    """Half the processor: a task of 4 us sustained needs 2 us of it, and finds them unused."""
    schedule = schedule_of(4_000, share=0.5, gaps=[20_000])
    assert play(compile_schedule(schedule)).makespan_ns == 22_000


def test_what_is_left_of_a_period_is_lost():
    """Waiting longer than a period saves up no more than one period's share."""
    once = play(compile_schedule(schedule_of(20_000, share=0.5, gaps=[10_000]))).makespan_ns
    long = play(compile_schedule(schedule_of(20_000, share=0.5, gaps=[100_000]))).makespan_ns
    assert once - 10_000 == long - 100_000 == 15_000


def test_a_full_share_is_no_quota():
    """Share 1 leaves the schedule as it is."""
    schedule = schedule_of(12_345, 678, share=1.0)
    assert play(compile_schedule(schedule)).makespan_ns == 12_345 + 678


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 30_000), min_size=1, max_size=6),
    st.lists(st.integers(0, 12_000), max_size=6),
    st.sampled_from([0.1, 0.3, 0.5, 0.9]),
)
def test_bound_holds_under_a_quota(steps, gaps, share):
    """No play ends before the whole periods its work needs, and without pauses it ends exactly then."""
    schedule = schedule_of(*steps, share=share, gaps=gaps)
    assert play(compile_schedule(schedule)).makespan_ns >= lower_bound(schedule).seconds * 1e9 - 0.5
    plain = schedule_of(*steps, share=share)
    assert play(compile_schedule(plain)).makespan_ns == pytest.approx(lower_bound(plain).seconds * 1e9)


def test_sampled_durations_are_processor_time():
    """Under half the processor a sampled task has half its sampled seconds of work."""
    free, half = (
        Schedule(1, [Task("t", 0, "compute", 1e-3, 0, spread_s=1e-4)], quotas) for quotas in ({}, {0: Quota(0.5, 1e-2)})
    )
    assert np.allclose(sample_durations(half, 50, 0), sample_durations(free, 50, 0) / 2, atol=1)


@pytest.mark.parametrize("quota", [Quota(0.0, 0.01), Quota(1.5, 0.01), Quota(0.5, 0.0), Quota(float("nan"), 0.01)])
def test_what_is_no_quota_is_refused(quota):
    """A share outside (0, 1] or a period of nothing is named."""
    schedule = Schedule(1, [Task("t", 0, "compute", 1e-3, 0)], {0: quota})
    with pytest.raises(ValueError, match="resource 0: not a quota"):
        compile_schedule(schedule)


def test_a_collective_cannot_run_under_a_quota():
    """Members of a group start together, so their resource must not stand still."""
    schedule = Schedule(1, [Task("t", 0, "communicate", 1e-3, 0, group=0)], {0: Quota(0.5, 0.01)})
    with pytest.raises(ValueError, match="cannot run under a quota"):
        compile_schedule(schedule)
