"""Schedules hold tasks whose dependencies come first, and epochs follow one another worker by worker."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.schedule import Quota, Schedule, Task


def task(key="t", worker=0, resource=0, after=()):
    """A second of computing."""
    return Task(key, worker, "compute", 1.0, resource, after)


@st.composite
def schedules(draw):
    """Tasks of up to three workers, each after some of its own; some meet in groups."""
    num_workers = draw(st.integers(1, 3))
    schedule = Schedule(num_workers, quotas={0: Quota(0.5, 1e-3)})
    for number in range(draw(st.integers(0, 8))):
        worker, group = draw(st.integers(0, num_workers - 1)), draw(st.integers(-1, 2))
        own = [index for index, other in enumerate(schedule.tasks) if other.worker == worker]
        after = draw(st.lists(st.sampled_from(own), unique=True)) if own else []
        schedule.add(replace(task(f"t{number}", worker, worker, tuple(after)), group=group))
    return schedule


def ancestors(schedule):
    """Of every task, all that must have ended before it."""
    found = []
    for each in schedule.tasks:
        found.append(set(each.after).union(*(found[index] for index in each.after)))
    return found


def test_a_task_has_the_number_of_those_before_it():
    """Under it others may come after it; a worker's keys are in the same order."""
    schedule = Schedule(2)
    places = [schedule.add(task(key, worker)) for key, worker in (("a", 1), ("b", 0), ("c", 1))]
    places.append(schedule.add(task("d", 0, after=tuple(places))))
    assert places == [0, 1, 2, 3]
    assert [schedule.keys_of(worker) for worker in range(2)] == [["b", "d"], ["a", "c"]]


@pytest.mark.parametrize(
    "wrong", [{"after": (1,)}, {"after": (0, 5)}, {"after": (-1,)}, {"worker": 2}, {"worker": -1}], ids=str
)
def test_what_is_not_there_yet_cannot_be_waited_for(wrong):
    """Nor can a worker work that is not there; nothing is added then."""
    schedule = Schedule(2)
    schedule.add(task())
    with pytest.raises(AssertionError):
        schedule.add(task("other", **wrong))
    assert schedule.keys_of(0) == ["t"]
    assert len(schedule.tasks) == 1


@pytest.mark.parametrize(("resources", "count"), [((), 0), ((0,), 1), ((4, 1), 5)])
def test_resources_are_counted_from_zero(resources, count):
    """Also those without a task between them."""
    assert Schedule(1, [task(resource=resource) for resource in resources]).num_resources == count


@given(schedules(), st.integers(0, 3))
def test_a_worker_begins_an_epoch_after_all_it_did_in_those_before(schedule, count):
    """And after nothing that others did; within an epoch what waits for what stays the same."""
    whole, size, once = schedule.repeated(count), len(schedule.tasks), ancestors(schedule)
    assert (whole.num_workers, whole.quotas, len(whole.tasks)) == (schedule.num_workers, schedule.quotas, count * size)
    for place, found in enumerate(ancestors(whole)):
        epoch, index = divmod(place, size)
        worker = schedule.tasks[index].worker
        earlier = {other for other in range(epoch * size) if schedule.tasks[other % size].worker == worker}
        assert found == earlier | {epoch * size + other for other in once[index]}


@given(schedules(), st.integers(0, 3))
def test_repeated_tasks_differ_in_what_they_wait_for_alone(schedule, count):
    """No group meets one of another epoch, and those that meet nobody still do not."""
    size, groups = len(schedule.tasks), set()
    for place, each in enumerate(schedule.repeated(count).tasks):
        epoch, index = divmod(place, size)
        before = schedule.tasks[index]
        assert replace(each, after=before.after, group=before.group) == before
        assert (each.group < 0) == (before.group < 0)
        if before.group >= 0:
            groups.add((epoch, before.group, each.group))
    assert len(groups) == len({each[:2] for each in groups}) == len({each[2] for each in groups})
