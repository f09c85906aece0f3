"""Plans without partial reduce under weather: their own schedules, played by the event engine epoch after epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import compile_schedule
from gnnplan.planner.simulator.engine import play as play_tasks
from gnnplan.planner.weather.conditions import Conditions, fair
from gnnplan.planner.weather.epochs import WholeEpochs
from gnnplan.planner.weather.model import MarkovWeather, TwoState, WorkerWeather
from gnnplan.planner.weather.play import figures, replicas_of
from gnnplan.planner.weather.sleep_tasks import BACKWARD, FORWARD, with_sleeps
from tests.planner.weather.test_weather_play import asleep, plan_of


def epoch(num_workers=3, transfer_s=0.0, beside_s=0.0, **quota):
    """A second of work forward, an exchange, the loss, another second backward, and all meet.

    For `beside_s` everybody computes while rows travel.
    """
    schedule, size = Schedule(num_workers), num_workers
    if quota:
        schedule.quotas = {worker: Quota(**quota) for worker in range(size)}
    last = [()] * size

    def each(key, seconds, after, *, group=-1):
        found = []
        for worker in range(size):
            category, resource = ("compute", worker) if group < 0 else ("communicate", size + worker)
            found.append((schedule.add(Task(key, worker, category, seconds, resource, after[worker], group)),))
        return found

    last = each("forward", 1.0, last)
    travelling = each("exchange", transfer_s, last, group=0)
    beside = each("near", beside_s, last)
    last = each("loss", 0.0, [a + b for a, b in zip(travelling, beside)])
    last = each("backward", 1.0, last)
    each("reduce", 0.0, last, group=1)
    return schedule


def lengths_s(schedule, conditions):
    """Of every epoch."""
    return WholeEpochs([schedule]).play(conditions).epoch_s


CASES = [
    (kind, num_workers, overlap)
    for kind in ("gcn", "sage", "gat", "tagcn")
    for num_workers in (1, 3)
    for overlap in (False, True)
    if not (kind == "gat" and overlap)
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "num_workers", "overlap"), CASES)
@pytest.mark.parametrize("quotas", [{}, {0: Quota(0.4, 1e-3, 2e-4), 2: Quota(0.7, 5e-4)}])
def test_fair_epochs_are_the_event_engines_to_the_nanosecond(kind, num_workers, overlap, quotas):
    """Sleeps of no time change none, whatever is lowered, under quotas or not."""
    schedule = lower_plan(plan_of(kind, num_workers, overlap=overlap))
    schedule.quotas |= {worker: quota for worker, quota in quotas.items() if worker < num_workers}
    timeline = play_tasks(compile_schedule(schedule.repeated(5)))
    expected_ns = np.diff(timeline.end_ns.reshape(5, -1).max(1), prepend=0)
    assert (lengths_s(schedule, fair(num_workers, 5)) * 1e9).round().tolist() == expected_ns.tolist()


def test_a_sleep_stands_before_each_half():
    """Of every worker: what follows waits for it, and it waits for what the half would have waited for."""
    schedule = epoch(num_workers=2, transfer_s=0.5, beside_s=0.25)
    slept = with_sleeps(schedule)
    assert slept.keys_of(1) == [FORWARD, "forward", "exchange", "near", "loss", BACKWARD, "backward", "reduce"]
    at = {(task.key, task.worker): index for index, task in enumerate(slept.tasks)}
    for worker in range(2):
        after = {key: slept.tasks[at[key, worker]].after for key in slept.keys_of(worker)}
        assert after["forward"] == (at[FORWARD, worker],)
        assert after[BACKWARD] == (at["loss", worker],)
        assert at[BACKWARD, worker] in after["backward"]
    assert {task.resource for task in slept.tasks if task.key in (FORWARD, BACKWARD)} == {4, 5}


def test_what_travels_beside_a_sleep_goes_on():
    """An exchange that nothing of the forward half waits for ends while the worker sleeps."""
    schedule = Schedule(2)
    for worker in range(2):
        schedule.add(Task("forward", worker, "compute", 1.0, worker))
    for worker in range(2):
        schedule.add(Task("exchange", worker, "communicate", 3.0, 2 + worker, (worker,), group=0))
    for worker in range(2):
        schedule.add(Task("loss", worker, "compute", 0.0, worker, (worker,)))
    for worker in range(2):
        schedule.add(Task("backward", worker, "compute", 1.0, worker, (2 + worker, 4 + worker)))
    assert lengths_s(schedule, fair(2, 2)).tolist() == [5, 5]
    assert lengths_s(schedule, asleep(2, 2, {(0, 1): 4.0})).tolist() == [5, 7]  # of 4 s rows hide the later 2
    assert lengths_s(schedule, asleep(2, 2, {(0, 1): 8.0})).tolist() == [5, 10]  # of 8 s 3


def test_collectives_wait_for_the_sleeper():
    """Each epoch takes as much longer as its longest sleeper sleeps."""
    conditions = asleep(3, 8, {(2, 5): 10.0, (0, 6): 3.0, (1, 6): 4.0})
    assert lengths_s(epoch(), conditions).tolist() == [2, 2, 2, 2, 2, 12, 6, 2]


def under(change_s, compute, link, num_epochs=4):
    """One worker at these rates beside a fair one."""
    never, ones = np.full(len(change_s), np.inf), np.ones(len(compute))
    rates = [np.array(each, float) for each in ([change_s, never], [compute, ones], [link, ones])]
    return Conditions(*rates, np.zeros((2, num_epochs)))


def test_slow_rates_stretch_what_is_done_under_them():
    """Half the processor from 3 s to 5 s loses a second of work; a link at a fifth takes five times as long."""
    conditions = under([3.0, 5.0], [1.0, 0.5, 1.0], [1.0, 1.0, 0.2])
    np.testing.assert_allclose(lengths_s(epoch(2), conditions), [2, 3, 2, 2])
    np.testing.assert_allclose(lengths_s(epoch(2, transfer_s=0.5), conditions), [2.5, 3.25, 4.5, 4.5])


def test_a_slow_link_is_hidden_behind_what_is_computed_beside_it():
    """Rows that travel for 0.5 s beside 1 s of work may take twice as long for nothing, and ten times for 4 s."""
    schedule = epoch(2, transfer_s=0.5, beside_s=1.0)
    for link, expected_s in ((1.0, 3.0), (0.5, 3.0), (0.1, 7.0)):
        np.testing.assert_allclose(lengths_s(schedule, under([], [1.0], [link])), expected_s)


def test_a_share_of_a_processor_is_a_share_of_its_quota():
    """Half of 0.4 of every 10 ms: twice as long, where work fills the periods."""
    schedule = epoch(2, share=0.4, period_s=0.01)
    np.testing.assert_allclose(lengths_s(schedule, under([], [0.5], [1.0])), 4.0, rtol=0.01)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_sleeps_cost_what_the_longest_sleepers_cost(size, transfer_s, beside_s, seed):
    """Where all meet in both halves, an epoch is longer by the longest sleep before each of them."""
    slept_s = np.random.default_rng(seed).integers(0, 3, (size, 6)).astype(float)
    conditions = fair(size, 6)
    conditions.sleep_s[:] = slept_s
    schedule = epoch(size, transfer_s, beside_s)
    found_s = lengths_s(schedule, conditions) - lengths_s(schedule, fair(size, 6))
    np.testing.assert_allclose(found_s, slept_s.max(0), atol=1e-6)


def test_epochs_of_several_kinds_take_turns():
    """One that sends all rows, then two that send none: rows are as old as the epochs since."""
    refresh, reuse = epoch(transfer_s=0.5), epoch()
    run = WholeEpochs([refresh, reuse, reuse]).play(asleep(3, 7, {(1, 3): 1.0, (1, 4): 1.0}))
    np.testing.assert_allclose(run.epoch_s, [2.5, 2, 2, 3.5, 3, 2, 2.5])
    assert run.oldest.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_figures_are_over_replicas_without_the_warm_up():
    """Mean, percentiles and delay of runs that are known."""
    runs = [asleep(3, 8, {}), asleep(3, 8, {(0, 4): 5.0})]
    found = figures(WholeEpochs([epoch()]), runs.__getitem__, 2)
    assert found.mean_epoch_s == pytest.approx(2.5)
    assert found.delay_s == pytest.approx(0.5)
    assert found.p95_run_epoch_s == pytest.approx(2.0 + 0.95)
    assert found.mean_members == 3
    assert found.max_age == 0


def test_a_two_state_model_slows_what_it_is_of():
    """A worker at half its rate for ever takes twice as long, and all wait for it."""
    for_ever = TwoState(share=0.5, fair_s=1e-9, slow_s=1e12)
    weather = MarkovWeather(workers=(WorkerWeather(compute=for_ever), WorkerWeather(), WorkerWeather()))
    found = figures(WholeEpochs([epoch()]), replicas_of(weather, 3, 20, 2.0), 3)
    assert found.mean_epoch_s == pytest.approx(4.0, rel=1e-6)
    assert found.delay_s == pytest.approx(2.0, rel=1e-6)
