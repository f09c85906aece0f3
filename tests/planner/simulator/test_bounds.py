"""The lower bound never exceeds the simulated makespan, and names what sets it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_bound import Bound, lower_bound
from random_schedules import random_schedule, under_quotas

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import DeadlockError, compile_schedule, play


def schedule_of(*rows):
    """A schedule of (seconds, resource, after, group) rows."""
    schedule = Schedule(num_workers=1)
    for index, (seconds, resource, after, group) in enumerate(rows):
        schedule.add(Task(f"t{index}", 0, "compute", seconds, resource, after, group))
    return schedule


def test_chain_is_bound_by_the_critical_path():
    """Tasks in a chain take the sum of their seconds."""
    assert lower_bound(schedule_of((2, 0, (), -1), (3, 1, (0,), -1))) == Bound(5.0, "critical path")


def test_crowded_resource_sets_the_bound():
    """Independent tasks on one resource take the sum of their seconds."""
    rows = [(1, 0, (), -1), (2, 1, (), -1), (3, 1, (), -1)]
    assert lower_bound(schedule_of(*rows)) == Bound(5.0, "resource 1")


def test_rendezvous_is_part_of_the_critical_path():
    """What follows a member of a group also waits for the other members."""
    rows = [(4, 0, (), -1), (1, 1, (0,), 0), (2, 2, (), 0), (3, 2, (2,), -1)]
    assert lower_bound(schedule_of(*rows)) == Bound(9.0, "critical path")


def test_empty_schedule_has_bound_zero():
    """No tasks take no time."""
    assert lower_bound(Schedule(num_workers=1)) == Bound(0.0, "critical path")


def assert_bound_holds(schedule):
    """Returns the gap to the makespan in seconds, or None for a schedule that cannot end."""
    try:
        makespan_s = play(compile_schedule(schedule)).makespan_s
    except DeadlockError:
        return None
    bound = lower_bound(schedule)
    assert bound.seconds <= makespan_s, schedule
    return makespan_s - bound.seconds


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_bound_holds(seed, max_steps, max_resources):
    """No schedule of any shape ends before its bound."""
    assert_bound_holds(random_schedule(np.random.default_rng(seed), max_steps, max_resources))


@pytest.mark.long
def test_bound_holds_on_ten_thousand_schedules():
    """The same on a fixed set, in which the bound is often met and often not."""
    rng = np.random.default_rng(0)
    gaps = [assert_bound_holds(random_schedule(rng)) for _ in range(10_000)]
    met, open_ = gaps.count(0.0), sum(gap is not None and gap > 0 for gap in gaps)
    assert met > 1000
    assert open_ > 1000


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_bound_holds_under_quotas(seed, max_steps, max_resources):
    """Nor one whose resources have quotas, begun within a period, and groups that are charged to them."""
    rng = np.random.default_rng(seed)
    assert_bound_holds(under_quotas(random_schedule(rng, max_steps, max_resources), rng))


@pytest.mark.long
def test_bound_holds_on_five_thousand_schedules_under_quotas():
    """The same on a fixed set; among them are bounds that a quota sets, met and not."""
    rng = np.random.default_rng(1)
    schedules = [under_quotas(random_schedule(rng), rng) for _ in range(5_000)]
    gaps = [assert_bound_holds(schedule) for schedule in schedules if is_bound_by_a_quota(schedule)]
    met, open_ = gaps.count(0.0), sum(gap is not None and gap > 0 for gap in gaps)
    assert met > 100
    assert open_ > 100


def is_bound_by_a_quota(schedule):
    """Whether what sets the bound is a resource that has one."""
    return lower_bound(schedule).set_by in {f"resource {resource}" for resource in schedule.quotas}


@pytest.mark.parametrize(("phase_ms", "expected_ms"), [(0, 15), (2.5, 12.5), (5, 10), (7.5, 15), (9, 15)])
def test_the_first_period_may_have_begun_before(phase_ms, expected_ms):
    """Half the processor, 10 ms of its time: what is left of the first period, then full ones."""
    schedule = Schedule(1, [Task("t", 0, "compute", 20e-3, 0)], {0: Quota(0.5, 10e-3, phase_ms * 1e-3)})
    assert lower_bound(schedule).seconds == play(compile_schedule(schedule)).makespan_s
    assert lower_bound(schedule).seconds == pytest.approx(expected_ms * 1e-3)


def test_bound_does_not_exceed_the_makespan_by_rounding():
    """Seconds that are not whole nanoseconds are rounded once, in the bound as in the engine."""
    schedule = schedule_of(*[(1.4e-9, 0, (), -1)] * 10)
    assert lower_bound(schedule).seconds == play(compile_schedule(schedule)).makespan_s


def test_dependency_cycle_is_an_error():
    """A schedule that cannot end has no bound."""
    tasks = [Task("a", 0, "compute", 1.0, 0, (1,)), Task("b", 0, "compute", 1.0, 1, (0,))]
    with pytest.raises(ValueError, match="w0 a, w0 b"):
        lower_bound(Schedule(1, tasks))
