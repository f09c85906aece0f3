"""The critical path is a chain of tasks without a gap, each of which the next one waited for."""

from itertools import pairwise

import numpy as np
import pytest

from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.critical_path import critical_path
from gnnplan.planner.simulator.engine import DeadlockError, compile_schedule, play
from gnnplan.planner.simulator.steady import median_epoch_of, play_epochs
from tests.planner.simulator.random_schedules import random_schedule, under_quotas

SEEDS = 400


def played(seed, *, quotas):
    """A random schedule and its timeline; None where it deadlocks."""
    rng = np.random.default_rng(seed)
    schedule = random_schedule(rng, max_steps=30)
    schedule = under_quotas(schedule, rng) if quotas else schedule
    try:
        compiled = compile_schedule(schedule)
        return schedule, compiled, play(compiled)
    except DeadlockError:
        return None


def let_start(schedule, timeline, before, task):
    """Whether a member of the task's group depends on the one before, or follows it on its resource."""
    of = schedule.tasks[task]
    members = [i for i, t in enumerate(schedule.tasks) if i == task or (of.group >= 0 and t.group == of.group)]
    last = [i for i in members if timeline.arrive_ns[i] == timeline.start_ns[task]]
    waits_for = {i for m in last for i in schedule.tasks[m].after}
    resources = {schedule.tasks[m].resource for m in last}
    return before in waits_for or schedule.tasks[before].resource in resources


@pytest.mark.parametrize("quotas", [False, True])
def test_stretches_add_up_to_the_makespan(quotas):
    """To the nanosecond, and every stretch lies within its task."""
    num_checked = 0
    for seed in range(SEEDS):
        if not (found := played(seed, quotas=quotas)):
            continue
        _, compiled, timeline = found
        path = critical_path(compiled, timeline, 0, timeline.makespan_ns)
        assert sum(each.end_ns - each.start_ns for each in path) == timeline.makespan_ns
        assert all(one.end_ns == other.start_ns for one, other in pairwise(path))
        for each in path:
            assert timeline.start_ns[each.task] <= each.start_ns < each.end_ns <= timeline.end_ns[each.task]
        num_checked += len(path) > 2
    assert num_checked > SEEDS / 4


def test_each_stretch_let_the_next_one_start():
    """By a dependency or by leaving a resource, of the task or of whom its group waited for last; no time is zero."""
    num_pairs = 0
    for seed in range(SEEDS):
        if not (found := played(seed, quotas=False)):
            continue
        schedule, compiled, timeline = found
        if any(task.seconds == 0 for task in schedule.tasks):  # others stand between two of the path
            continue
        path = critical_path(compiled, timeline, 0, timeline.makespan_ns)
        for one, other in pairwise(path):
            assert let_start(schedule, timeline, one.task, other.task)
            num_pairs += 1
    assert num_pairs > 30


def test_the_path_leads_through_whoever_comes_last():
    """Two workers exchange rows; the slower one's computing is on the path, the other's waiting is not."""
    schedule = Schedule(2)
    for worker, seconds in enumerate((1.0, 3.0)):
        schedule.add(Task("compute", worker, "compute", seconds, worker))
    for worker in range(2):
        schedule.add(Task("exchange", worker, "communicate", 2.0, 2 + worker, (worker,), group=0))
    schedule.add(Task("step", 0, "compute", 1.0, 0, (2,)))
    epoch = median_epoch_of(schedule)
    path = critical_path(epoch.compiled, epoch.timeline, epoch.begin_ns, epoch.end_ns)
    shown = [(schedule.tasks[each.task].key, schedule.tasks[each.task].worker) for each in path]
    assert shown == [("compute", 1), ("exchange", 0), ("step", 0)]


def test_epochs_on_end_have_the_median_epoch():
    """Under quotas the path is of the epoch whose length the simulator names, whatever it began with."""
    for seed in range(60):
        if not (found := played(seed, quotas=True)):
            continue
        schedule = found[0]
        if not schedule.quotas:
            continue
        epoch = median_epoch_of(schedule)
        path = critical_path(epoch.compiled, epoch.timeline, epoch.begin_ns, epoch.end_ns)
        total_ns = sum(each.end_ns - each.start_ns for each in path)
        assert total_ns / 1e9 == play_epochs(schedule).median_epoch_s
