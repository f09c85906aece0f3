"""Compiled schedules on end: as the schedule of all of them is played, of one kind or of several."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import random_schedule, under_quotas

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import DeadlockError, compile_schedule, play
from gnnplan.planner.simulator.on_end import on_end


def of_two_workers(schedule, rng):
    """The same tasks, each of one worker or the other."""
    return replace(schedule, num_workers=2, tasks=[replace(t, worker=int(rng.integers(2))) for t in schedule.tasks])


def times_of(compiled):
    """All times of a play, or that it cannot end."""
    try:
        timeline = play(compiled)
    except DeadlockError:
        return None
    return [each.tolist() for each in (timeline.arrive_ns, timeline.start_ns, timeline.end_ns)]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_the_same_on_end_is_the_repeated_schedule(seed, count, has_quotas):
    """Every time, and every deadlock, with quotas and without."""
    rng = np.random.default_rng(seed)
    schedule = of_two_workers(random_schedule(rng), rng)
    if has_quotas:
        schedule = under_quotas(schedule, rng)
    expected = compile_schedule(schedule.repeated(count))
    assert times_of(on_end([compile_schedule(schedule)] * count)) == times_of(expected)


def epoch(*seconds, exchange_s=None):
    """Every worker computes; they may meet then."""
    schedule = Schedule(len(seconds), quotas={0: Quota(1.0, 1e-5)})
    for worker, own_s in enumerate(seconds):
        schedule.add(Task("work", worker, "compute", own_s, worker))
    for worker in range(len(seconds)) if exchange_s else ():
        schedule.add(Task("meet", worker, "communicate", exchange_s, len(seconds) + worker, (worker,), group=0))
    return compile_schedule(schedule)


def test_epochs_of_several_kinds_follow_each_other():
    """Two meet after 3 s in the first, do not meet in the second, and again do in the third, after what each did."""
    meets, parts = epoch(1.0, 3.0, exchange_s=0.5), epoch(2.0, 1.0)
    ends_s = (play(on_end([meets, parts, meets])).end_ns / 1e9).tolist()
    assert ends_s == pytest.approx([1, 3, 3.5, 3.5, 5.5, 4.5, 6.5, 7.5, 8, 8])


def test_parts_under_other_quotas_are_refused():
    """A quota says how long a task runs, and each part was compiled with its own."""
    free = compile_schedule(Schedule(2, [Task("work", 0, "compute", 1.0, 0)]))
    with pytest.raises(AssertionError, match="quotas differ"):
        on_end([epoch(1.0, 1.0), free])
