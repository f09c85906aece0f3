"""The compiled loop on arrays: queues, periods, charges and replicas, in a workspace that may hold anything before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_schedules import random_schedule, under_quotas

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import compile_schedule
from gnnplan.planner.simulator.event_loop import play_once, play_replicas
from gnnplan.planner.simulator.tables import make_workspace
from tests.planner.simulator.test_engine import schedule_of

PERIOD_NS = 20


def played(tables, duration_ns):
    """(how many tasks ended, the workspace they were played in)."""
    work = make_workspace(tables)
    return play_once(tables, work, duration_ns), work


def limited(tables, quota_ns, phase_ns=0):
    """The one resource has so much of every period, the first of which has begun before."""
    changes = {"quota_ns": quota_ns, "period_ns": PERIOD_NS, "phase_ns": phase_ns}
    return tables._replace(**{name: np.array([value]) for name, value in changes.items()})


@pytest.mark.parametrize("has_quotas", [False, True])
def test_a_workspace_may_hold_anything_before(has_quotas):
    """What an earlier play left there, or memory as it came, changes no time."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        schedule = random_schedule(rng)
        compiled = compile_schedule(under_quotas(schedule, rng) if has_quotas else schedule)
        found = []
        for garbage in (0, 7):
            work = make_workspace(compiled.tables)
            for array in work:
                array.fill(garbage)
            num_ended = play_once(compiled.tables, work, compiled.duration_ns)
            found.append([num_ended, *(times.tolist() for times in (work.arrive_ns, work.start_ns, work.end_ns))])
        assert found[0] == found[1]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_a_queue_is_served_by_ready_time_then_index(ready_ns):
    """However many wait for a resource that is busy until all of them do."""
    count = len(ready_ns)
    feeders = [(seconds, 1 + index) for index, seconds in enumerate(ready_ns)]
    waiting = [(1, 0, (1 + index,)) for index in range(count)]
    compiled = compile_schedule(schedule_of((10, 0), *feeders, *waiting))
    num_ended, work = played(compiled.tables, compiled.duration_ns)
    assert num_ended == 1 + 2 * count
    in_order = sorted(range(count), key=lambda index: (ready_ns[index], index))
    assert [int(work.start_ns[1 + count + index]) for index in in_order] == list(range(10, 10 + count))


def test_what_cannot_end_is_left_as_it_stands():
    """Members hold resources though their groups are never complete; what does end is counted."""
    rows = [(1, 0, (), 0), (1, 1, (), 1), (1, 0, (), 1), (1, 1, (), 0), (1, 2)]
    compiled = compile_schedule(schedule_of(*rows))
    num_ended, work = played(compiled.tables, compiled.duration_ns)
    assert num_ended == 1
    assert work.arrive_ns.tolist() == [0, 0, -1, -1, 0]
    assert work.start_ns.tolist() == [-1, -1, -1, -1, 0]
    assert work.end_ns.tolist() == [-1, -1, -1, -1, 1]


def by_stepping(works, quota_ns, phase_ns):
    """End times of tasks that follow one another, every nanosecond looked at."""
    ends, now, period, used = [], phase_ns, 0, 0
    for work in works:
        while work:
            if now // PERIOD_NS != period:
                period, used = now // PERIOD_NS, 0
            if used < quota_ns:
                work, used = work - 1, used + 1
            now += 1
        ends.append(now - phase_ns)
    return ends


@given(st.lists(st.integers(0, 100), min_size=1, max_size=4), st.integers(1, PERIOD_NS), st.integers(0, PERIOD_NS - 1))
def test_periods_that_have_begun_before_end_sooner(works, quota_ns, phase_ns):
    """The jump over whole periods ends where a nanosecond at a time ends."""
    compiled = compile_schedule(schedule_of(*[(0, 0)] * len(works)))
    _, work = played(limited(compiled.tables, quota_ns, phase_ns), np.array(works))
    assert work.end_ns.tolist() == by_stepping(works, quota_ns, phase_ns)


def test_a_member_short_of_processor_time_holds_up_its_group():
    """8 us are charged to a worker that has 5 of every 10: the others wait for it, and 3 of the next 5 are gone."""
    schedule = Schedule(num_workers=2, quotas={0: Quota(0.5, 1e-5)})
    for worker in range(2):
        task = Task("meet", worker, "communicate", 1e-6, 2 + worker, group=0, charged=worker, processor_s=8e-6)
        schedule.add(task)
    schedule.add(Task("work", 0, "compute", 8e-6, 0, (0,)))
    compiled = compile_schedule(schedule)
    _, work = played(compiled.tables, compiled.duration_ns)
    assert work.start_ns.tolist() == [0, 0, 13_000]
    assert work.end_ns.tolist() == [13_000, 13_000, 22_000]


def test_replicas_have_periods_and_epochs_of_their_own():
    """Two epochs of 15 ns under 10 of every 20: from the begin of a period, and from when only 5 of it are left."""
    compiled = compile_schedule(schedule_of((0, 0)).repeated(2))
    tables, end_ns = limited(compiled.tables, 10), np.zeros((2, 2), np.int64)
    durations, phases = np.full((2, 2), 15), np.array([[0], [15]])
    assert play_replicas(tables, make_workspace(tables), durations, phases, end_ns) == 2
    assert end_ns.tolist() == [[25, 50], [15, 50]]


def test_the_first_replica_that_cannot_end_ends_the_play():
    """Its number is returned, and nothing is written of it or of those behind it."""
    feeders = [(1, 2), (2, 3)]
    groups = [(1, 0, (0,), 0), (1, 1, (), 0), (1, 0, (1,), 1), (1, 1, (), 1)]
    compiled = compile_schedule(schedule_of(*feeders, *groups))
    good, bad = compiled.duration_ns, compiled.duration_ns.copy()
    bad[0] = 3  # resource 0 now takes group 1 first, resource 1 still group 0
    end_ns, phases = np.full((3, 1), -1), np.zeros((3, 4), np.int64)
    work = make_workspace(compiled.tables)
    assert play_replicas(compiled.tables, work, np.stack([good, bad, good]), phases, end_ns) == 1
    assert end_ns.tolist() == [[3], [-1], [-1]]
