"""The event engine, one concept a test, and against SimPy on random schedules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import random_schedule
from simpy_oracle import simpy_end_ns

from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.engine import DeadlockError, compile_schedule, play, play_many

NS = 1e-9


def schedule_of(*rows):
    """A schedule of (duration in ns, resource, after, group) rows, the last two optional."""
    schedule = Schedule(num_workers=1)
    for index, (duration, resource, *rest) in enumerate(rows):
        after, group = (*rest, *((), -1)[len(rest) :])
        schedule.add(Task(f"t{index}", 0, "compute", duration * NS, resource, after, group))
    return schedule


def play_rows(*rows):
    return play(compile_schedule(schedule_of(*rows)))


def test_empty_schedule_ends_at_zero():
    """A schedule without tasks has a makespan of 0."""
    assert play_rows().makespan_ns == 0


def test_task_starts_when_its_last_dependency_ends():
    """A task waits for all it comes after, also on other resources."""
    timeline = play_rows((5, 0), (9, 1), (1, 2, (0, 1)))
    assert timeline.start_ns.tolist() == [0, 0, 9]
    assert timeline.makespan_ns == 10


def test_independent_tasks_on_two_resources_overlap():
    """Tasks on different resources run at the same time."""
    assert play_rows((5, 0), (7, 1)).makespan_ns == 7


def test_resource_runs_one_task_at_a_time():
    """Tasks on one resource follow each other without a gap."""
    assert play_rows((5, 0), (7, 0)).end_ns.tolist() == [5, 12]


def test_earlier_ready_task_is_served_first():
    """The ready time decides before the index does."""
    # Task 3 is ready at 4, task 4 at 3; their resource is free at 10.
    timeline = play_rows((10, 0), (4, 1), (3, 2), (1, 0, (1,)), (1, 0, (2,)))
    assert timeline.start_ns.tolist() == [0, 0, 0, 11, 10]


def test_tie_of_ready_times_goes_to_the_lower_index():
    """Tasks that become ready at one instant are served in index order."""
    timeline = play_rows((4, 0), (4, 1), (1, 2, (1,)), (1, 2, (0,)))
    assert timeline.start_ns.tolist() == [0, 0, 4, 5]


def test_all_ends_of_an_instant_come_before_serving():
    """A resource that falls free picks among all that become ready at that instant."""
    # Task 3 becomes ready by the end of task 0, task 2 by the end of task 1, both at 4.
    timeline = play_rows((4, 0), (4, 1), (1, 0, (1,)), (1, 0, (0,)))
    assert timeline.start_ns.tolist() == [0, 0, 4, 5]


def test_zero_duration_task_passes_within_the_instant():
    """A task of no duration ends when it starts and still keeps the order of its resource."""
    assert play_rows((0, 0), (3, 0), (0, 0, (1,)), (2, 1, (2,))).end_ns.tolist() == [0, 3, 3, 5]


def test_group_starts_when_the_last_member_has_its_resource():
    """Members that come early hold their resource and wait; each then runs its own duration."""
    timeline = play_rows((6, 1), (3, 0, (), 0), (4, 1, (0,), 0), (1, 0))
    assert timeline.arrive_ns.tolist() == [0, 0, 6, 9]
    assert timeline.start_ns.tolist() == [0, 6, 6, 9]
    assert timeline.end_ns.tolist() == [6, 9, 10, 10]


def test_group_of_one_does_not_wait():
    """A rendezvous with oneself is no rendezvous."""
    assert play_rows((3, 0, (), 5)).end_ns.tolist() == [3]


def test_duplicate_dependency_counts_once():
    """Naming a dependency twice changes nothing."""
    assert play_rows((3, 0), (2, 1, (0, 0))).end_ns.tolist() == [3, 5]


def test_crossing_groups_are_a_deadlock_that_names_its_tasks():
    """Two groups that each hold what the other needs raise instead of hanging."""
    schedule = schedule_of((1, 0, (), 0), (1, 1, (), 1), (1, 0, (), 1), (1, 1, (), 0), (1, 2))
    with pytest.raises(DeadlockError, match=r"4 of 5 .*; holding .*: w0 t0, w0 t1; waiting .*: w0 t2, w0 t3"):
        play(compile_schedule(schedule))


def test_dependency_cycle_is_a_deadlock():
    """Tasks that wait for each other are named."""
    tasks = [Task("a", 0, "compute", 1.0, 0, (1,)), Task("b", 0, "compute", 1.0, 1, (0,))]
    with pytest.raises(ValueError, match=r"2 of 2 tasks never end; waiting .*: w0 a, w0 b"):
        play(compile_schedule(Schedule(1, tasks)))


def test_long_deadlock_message_is_cut():
    """Only the first few of many stuck tasks are named."""
    tasks = [Task(f"t{index}", 0, "compute", 1.0, 0, (index,)) for index in range(20)]
    with pytest.raises(DeadlockError, match="w0 t7 and 12 more"):
        play(compile_schedule(Schedule(1, tasks)))


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        (Task("a", 0, "compute", -1.0, 0), "w0 a: seconds must be finite"),
        (Task("a", 0, "compute", float("nan"), 0), "w0 a: seconds must be finite"),
        (Task("a", 0, "compute", 1.0, -1), "w0 a: the resource must be"),
        (Task("a", 0, "compute", 1.0, 0, (7,)), "w0 a: depends on a task that does not exist"),
    ],
)
def test_wrong_task_is_named(task, fault):
    """A task that cannot be played raises with its worker and key."""
    with pytest.raises(ValueError, match=fault):
        compile_schedule(Schedule(1, [task]))


def test_group_with_two_members_on_one_resource_is_refused():
    """A group that could never start is refused before anything is played."""
    with pytest.raises(ValueError, match="w0 t2: its group needs one resource twice"):
        compile_schedule(schedule_of((1, 0, (), 3), (1, 1, (), 3), (1, 0, (), 3), (1, 0), (1, 0)))


def test_given_durations_replace_the_compiled_ones():
    """`play` takes other durations without compiling the schedule again."""
    compiled = compile_schedule(schedule_of((5, 0), (7, 0)))
    assert play(compiled, np.array([1, 2])).end_ns.tolist() == [1, 3]
    assert compiled.duration_ns.tolist() == [5, 7]


@pytest.mark.parametrize("durations", [np.array([1]), np.array([1, -1])])
def test_durations_that_do_not_fit_are_refused(durations):
    """One duration of at least 0 is needed for each task."""
    with pytest.raises(AssertionError):
        play(compile_schedule(schedule_of((5, 0), (7, 0))), durations)


@pytest.mark.long
def test_play_many_equals_play_of_each_row():
    """Replicas share a workspace and nothing else."""
    rng = np.random.default_rng(1)
    compiled = compile_schedule(
        schedule_of((5, 0), (2, 1), (3, 0, (0,), 0), (3, 1, (1,), 0), (4, 0, (1,)), (1, 1, (2, 4)))
    )
    durations = rng.integers(0, 9, size=(50, 6))
    expected = [play(compiled, row).makespan_ns for row in durations]
    assert play_many(compiled, durations)[:, 0].tolist() == expected


def test_play_many_of_no_tasks_or_no_replicas():
    """Empty shapes give empty or zero makespans."""
    assert play_many(compile_schedule(schedule_of()), np.zeros((3, 0))).tolist() == [[0], [0], [0]]
    assert play_many(compile_schedule(schedule_of((5, 0))), np.zeros((0, 1))).tolist() == []


def test_play_many_names_the_replica_that_deadlocks():
    """Durations decide who comes first, so a deadlock can be one replica's."""
    feeders = [(1, 2), (2, 3)]
    groups = [(1, 0, (0,), 0), (1, 1, (), 0), (1, 0, (1,), 1), (1, 1, (), 1)]
    compiled = compile_schedule(schedule_of(*feeders, *groups))
    good, bad = compiled.duration_ns, compiled.duration_ns.copy()
    bad[0] = 3  # resource 0 now takes group 1 first, resource 1 still group 0
    assert play_many(compiled, np.stack([good, good])).tolist() == [[3], [3]]
    with pytest.raises(DeadlockError, match="replica 1: deadlock: 4 of 6 tasks"):
        play_many(compiled, np.stack([good, bad, good]))


def assert_equal_to_simpy(schedule):
    """Returns whether the schedule ends; if not, both must leave as many tasks undone."""
    expected = simpy_end_ns(schedule)
    if len(expected) == len(schedule.tasks):
        end_ns = play(compile_schedule(schedule)).end_ns.tolist()
        assert end_ns == [expected[index] for index in range(len(end_ns))]
        return True
    num_stuck = len(schedule.tasks) - len(expected)
    with pytest.raises(DeadlockError, match=f"deadlock: {num_stuck} of {len(schedule.tasks)} tasks"):
        play(compile_schedule(schedule))
    return False


@st.composite
def schedules(draw):
    """Up to 12 steps, each one task or a group, on up to 4 resources, of 0 to 3 ns."""
    num_resources = draw(st.integers(1, 4))
    schedule = Schedule(num_workers=1)
    for step in range(draw(st.integers(1, 12))):
        known = len(schedule.tasks)
        size = draw(st.integers(1, num_resources))
        group = step if size > 1 or draw(st.booleans()) else -1
        for resource in draw(st.permutations(range(num_resources)))[:size]:
            after = draw(st.lists(st.integers(0, known - 1), max_size=2)) if known else []
            seconds = draw(st.integers(0, 3)) * NS
            key = f"t{len(schedule.tasks)}"
            schedule.add(Task(key, 0, "compute", seconds, resource, tuple(after), group))
    return schedule


@settings(max_examples=200, deadline=None)
@given(schedules())
def test_end_times_equal_simpy(schedule):
    """An independent SimPy model of the same rules ends every task at the same nanosecond."""
    assert_equal_to_simpy(schedule)


def test_end_times_equal_simpy_on_larger_random_schedules():
    """The same with more tasks in the queues, where both outcomes occur."""
    rng = np.random.default_rng(0)
    ended = [assert_equal_to_simpy(random_schedule(rng, max_steps=40, max_resources=6)) for _ in range(500)]
    assert 50 < sum(ended) < 450


def test_same_input_same_output():
    """Two plays of one schedule are equal to the nanosecond."""
    schedule = schedule_of(*[(index % 3, index % 4, tuple(range(0, index, 7))) for index in range(200)])
    first, second = play(compile_schedule(schedule)), play(compile_schedule(schedule))
    for name in ("arrive_ns", "start_ns", "end_ns"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
