"""Epochs on end: the same one after another without quotas, and the sustained pace with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.simulator.montecarlo import percentiles
from gnnplan.planner.simulator.steady import epochs_to_play, play_epochs

PERIOD_S = 10e-3


def workers(*seconds, quotas=None, exchange_s=1e-3, processor_s=0.0):
    """Every worker computes and then meets the others in one exchange."""
    size = len(seconds)
    schedule = Schedule(size, quotas=quotas or {})
    first = [schedule.add(Task("compute", w, "compute", s, w)) for w, s in enumerate(seconds)]
    for worker, index in enumerate(first):
        charge = {"charged": worker, "processor_s": processor_s}
        schedule.add(Task("exchange", worker, "communicate", exchange_s, size + worker, (index,), 0, **charge))
    return schedule


def test_without_quotas_one_epoch_is_played():
    """There every epoch is like the first."""
    schedule = workers(2e-3, 3e-3)
    assert epochs_to_play(schedule) == 1
    assert play_epochs(schedule).median_epoch_s == play(compile_schedule(schedule)).makespan_s == 4e-3


@given(st.lists(st.floats(0, 1e-2), min_size=1, max_size=4), st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_repeated_epochs_take_as_often_as_long(seconds, count):
    """An exchange among all ends every epoch, so `count` of them last `count` times as long."""
    schedule = workers(*seconds)
    once = play(compile_schedule(schedule)).makespan_ns
    assert play(compile_schedule(schedule.repeated(count))).makespan_ns == count * once


def test_a_short_epoch_pays_for_its_quota_in_the_long_run():
    """Six ms of processor time fit into a fresh period of eight, but one after another they do not."""
    quotas = {0: Quota(0.5, PERIOD_S)}
    schedule = workers(8e-3, quotas=quotas)
    assert play(compile_schedule(schedule)).makespan_s == pytest.approx(5e-3)
    epochs = play_epochs(schedule)
    assert epochs.epoch_ns.mean() / 1e9 == pytest.approx(8e-3 + 1e-3, rel=0.15)


def test_processor_time_of_an_exchange_counts_against_the_quota():
    """What an exchange uses up is missing to the operators after it, and to the exchange itself."""
    quotas = {0: Quota(0.5, PERIOD_S)}
    free = play_epochs(workers(4e-3, quotas=quotas)).epoch_ns.mean()
    charged = play_epochs(workers(4e-3, quotas=quotas, processor_s=2e-3)).epoch_ns.mean()
    assert charged >= free + 1e6
    alone = play_epochs(workers(0.0, quotas=quotas, processor_s=20e-3)).epoch_ns.mean()
    assert alone / 1e9 == pytest.approx(40e-3, rel=0.1)


def test_a_member_short_of_processor_time_holds_up_the_others():
    """Nobody has what the late one has not sent."""
    schedule = workers(0.0, 0.0, quotas={1: Quota(0.1, PERIOD_S)}, processor_s=2e-3)
    end_ns = play(compile_schedule(schedule)).end_ns
    assert end_ns[2] == end_ns[3] > 10e6


def test_without_a_quota_processor_time_costs_nothing_more():
    """The exchange's own seconds have it in them."""
    assert play(compile_schedule(workers(1e-3, processor_s=5.0))).makespan_s == pytest.approx(2e-3)


@pytest.mark.parametrize(
    "changed", [{"charged": 9}, {"processor_s": -1.0}, {"processor_s": float("nan")}, {"group": -1}]
)
def test_a_charge_that_cannot_be_is_refused(changed):
    """A resource that is not there, seconds that are none, a task that meets nobody."""
    good = {"group": 0, "charged": 0, "processor_s": 1e-3}
    schedule = Schedule(1, [Task("t", 0, "communicate", 1e-3, 0, **(good | changed))])
    with pytest.raises(ValueError, match="w0 t: "):
        compile_schedule(schedule)


def test_a_phase_shifts_the_first_period():
    """A period of which 9 of 10 ms have passed has 1 ms left to run in."""
    schedule = Schedule(1, [Task("t", 0, "compute", 4e-3, 0)], {0: Quota(0.5, PERIOD_S, phase_s=9e-3)})
    assert play(compile_schedule(schedule)).makespan_s == pytest.approx(2e-3)
    with pytest.raises(ValueError, match="not a quota"):
        compile_schedule(Schedule(1, schedule.tasks, {0: Quota(0.5, PERIOD_S, phase_s=PERIOD_S)}))


def lagging():
    """Whoever ends early begins the next epoch early: after the exchange worker 0, which has a quota, goes on alone."""
    schedule = workers(8e-3, 2e-3, quotas={0: Quota(0.5, PERIOD_S)})
    exchanges = [index for index, task in enumerate(schedule.tasks) if task.key == "exchange"]
    for worker, (index, seconds) in enumerate(zip(exchanges, (3e-3, 1e-3))):
        schedule.add(Task("optimizer", worker, "compute", seconds, worker, (index,)))
    return schedule


def test_percentiles_of_constant_tasks_are_the_steady_epochs(monkeypatch):
    """Nothing fluctuates but where periods begin: where they do as in the schedule, quotas make the same epochs."""
    as_given = np.zeros((1, lagging().num_resources), np.int64)
    monkeypatch.setattr("gnnplan.planner.simulator.montecarlo.sample_phases", lambda *_: as_given)
    epoch_s = play_epochs(lagging()).epoch_ns / 1e9
    p50, p95 = np.percentile(epoch_s, [50, 95])
    assert percentiles(lagging(), 1, 0) == {"p50": pytest.approx(p50), "p95": pytest.approx(p95)}


def test_epochs_add_up_to_all_of_them_together():
    """From one's end to the next one's, though a worker begins the next before all have ended this one."""
    schedule = lagging()
    epochs = play_epochs(schedule)
    timeline = play(compile_schedule(schedule.repeated(epochs_to_play(schedule))))
    first_end_ns = timeline.end_ns[: len(schedule.tasks)].max()
    assert epochs.epoch_ns.sum() == timeline.makespan_ns - first_end_ns
    assert epochs.epoch_ns.sum() < epochs.end_ns.max(1).sum()
