"""Sampled durations have the measured median and spread; percentiles follow from them."""

import numpy as np
import pytest

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.simulator.montecarlo import percentiles, sample_durations, sample_phases


def chain(*durations):
    """A chain of (seconds, spread_s) tasks on one resource."""
    schedule = Schedule(num_workers=1)
    for index, (seconds, spread_s) in enumerate(durations):
        after = (index - 1,) if index else ()
        schedule.add(Task(f"t{index}", 0, "compute", seconds, 0, after, spread_s=spread_s))
    return schedule


@pytest.mark.parametrize(("seconds", "spread_s"), [(1e-3, 1e-4), (1e-3, 1e-3), (1e-4, 1e-3)])
def test_median_and_interquartile_range_are_those_of_the_task(seconds, spread_s):
    """The quartiles of the draws lie `spread_s` apart around the median."""
    drawn = sample_durations(chain((seconds, spread_s)), 40_000, seed=0)[:, 0] / 1e9
    low, median, high = np.percentile(drawn, [25, 50, 75])
    assert median == pytest.approx(seconds, rel=0.05)
    assert high - low == pytest.approx(spread_s, rel=0.05)


def test_no_spread_is_constant():
    """A task without spread takes its predicted duration in every replica."""
    drawn = sample_durations(chain((1e-3, 0.0), (1e-3, 1e-4)), 10, seed=0)
    assert set(drawn[:, 0].tolist()) == {1_000_000}
    assert len(set(drawn[:, 1].tolist())) == 10


def test_zero_seconds_stay_zero():
    """A task of no duration cannot fluctuate around it."""
    assert not sample_durations(chain((0.0, 1e-3)), 10, seed=0).any()


def test_tail_is_cut():
    """A spread of many medians does not draw hours."""
    drawn = sample_durations(chain((1e-9, 1e-3)), 10_000, seed=0)
    assert drawn.max() == round((1e-9 + 20e-3) * 1e9)
    assert drawn.min() >= 0


def test_resources_of_one_host_have_one_period():
    """Those of others begin theirs whenever they do."""
    quota = Quota(0.5, 0.01, host=0)
    schedule = Schedule(
        3, [Task("a", w, "compute", 1e-3, w) for w in range(3)], {0: quota, 1: quota, 2: Quota(0.5, 0.01, host=1)}
    )
    phases = sample_phases(schedule, 50, seed=0)
    assert (phases[:, 0] == phases[:, 1]).all()
    assert (phases[:, 0] != phases[:, 2]).any()


def test_seed_decides_the_draws():
    """The same seed draws the same, another seed draws others."""
    schedule = chain((1e-3, 1e-4), (1e-3, 1e-4))
    first = sample_durations(schedule, 5, seed=1)
    assert first.dtype == np.int64
    assert (first == sample_durations(schedule, 5, seed=1)).all()
    assert (first != sample_durations(schedule, 5, seed=2)).any()


def test_more_replicas_keep_the_first_ones():
    """Asking for more replicas appends rows."""
    schedule = chain((1e-3, 1e-4), (1e-3, 1e-4))
    assert (sample_durations(schedule, 9, seed=1)[:5] == sample_durations(schedule, 5, seed=1)).all()


@pytest.mark.parametrize("spread_s", [-1.0, float("inf"), float("nan")])
def test_wrong_spread_is_named(spread_s):
    """A spread that is no spread raises with the task's key."""
    with pytest.raises(ValueError, match="w0 t1: spread_s"):
        sample_durations(chain((1.0, 0.0), (1.0, spread_s)), 1, seed=0)


def test_percentiles_without_spread_are_the_makespan():
    """With nothing that fluctuates every percentile is the prediction."""
    schedule = chain((1e-3, 0.0), (2e-3, 0.0))
    assert percentiles(schedule, 20, seed=0) == {"p50": 3e-3, "p95": 3e-3}


def test_waiting_for_the_slowest_raises_the_median():
    """The median of a rendezvous of many exceeds the makespan of the medians."""
    schedule = Schedule(num_workers=8)
    for worker in range(8):
        schedule.add(Task("work", worker, "compute", 1e-3, worker, spread_s=2e-4))
    result = percentiles(schedule, 2000, seed=0)
    assert play(compile_schedule(schedule)).makespan_s < result["p50"] < result["p95"]


def together(size, spread_s):
    """An exchange among all, of a millisecond, and what waits for it."""
    schedule = Schedule(num_workers=size)
    for name in ("exchange", "next"):
        for worker in range(size):
            after = (worker,) if name == "next" else ()
            seconds, spread = (1e-3, spread_s) if name == "exchange" else (0.0, 0.0)
            group = ["exchange", "next"].index(name)
            schedule.add(Task(name, worker, "communicate", seconds, worker, after, group=group, spread_s=spread))
    return schedule


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_collective_has_one_draw(size):
    """It was timed at its slowest worker: waiting for all of it adds nothing to its median, however many they are."""
    schedule = together(size, 3e-4)
    drawn = sample_durations(schedule, 4000, seed=0)[:, :size]
    assert (drawn == drawn[:, :1]).all()
    alone = percentiles(together(1, 3e-4), 4000, seed=0)["p50"]
    assert percentiles(schedule, 4000, seed=0)["p50"] == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("spread_s", [1e-4, 1e-3])
def test_a_collective_has_the_mean_that_was_measured(spread_s):
    """However far its calls are spread: an epoch of many waits for their mean many times."""
    drawn = sample_durations(together(2, spread_s), 200_000, seed=0)[:, 0] / 1e9
    assert drawn.mean() == pytest.approx(1e-3, rel=0.02)
    assert np.median(drawn) < 1e-3


def test_each_epoch_draws_anew():
    """Groups of repeated epochs are other groups."""
    schedule = Schedule(num_workers=2)
    for worker in range(2):
        schedule.add(Task("exchange", worker, "communicate", 1e-3, worker, group=0, spread_s=3e-4))
    drawn = sample_durations(schedule.repeated(3), 5, seed=0)
    assert (drawn[:, ::2] == drawn[:, 1::2]).all()
    assert len(np.unique(drawn)) == 15


def under_quota(size, seconds=0.011):
    """Workers that compute, and then wait for each other, under quotas of half of every 10 ms."""
    schedule = Schedule(num_workers=size, quotas={worker: Quota(0.5, 0.01) for worker in range(size)})
    for worker in range(size):
        schedule.add(Task("work", worker, "compute", seconds, worker))
    for worker in range(size):
        schedule.add(Task("meet", worker, "communicate", 1e-3, size + worker, (worker,), group=0))
    return schedule


def test_periods_lie_elsewhere_in_every_replica():
    """Within their period, those of different hosts apart; so epochs fluctuate though no task does."""
    drawn = sample_phases(under_quota(3), 1000, seed=0)
    assert drawn.shape == (1000, 6)
    assert 0 <= drawn.min() < drawn.max() < 10_000_000
    assert not drawn[:, 3:].any(), "what has no quota has no period"
    assert np.abs(np.corrcoef(drawn[:, :3].T) - np.eye(3)).max() < 0.15
    assert drawn[:, :3].mean() == pytest.approx(5e6, rel=0.05)
    found = percentiles(under_quota(2), 500, seed=0)
    assert found["p95"] > found["p50"]


def test_a_whole_core_has_no_period():
    """Nothing stands still where all of every period may be used."""
    schedule = Schedule(num_workers=1, quotas={0: Quota(1.0, 0.01)})
    schedule.add(Task("work", 0, "compute", 0.015, 0))
    assert not sample_phases(schedule, 10, seed=0).any()
