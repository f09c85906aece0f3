"""Sampled durations have the measured median and spread; percentiles follow from them."""

import numpy as np
import pytest

from planner.schedule import Schedule, Task
from planner.simulator.engine import compile_schedule, play
from planner.simulator.montecarlo import percentiles, sample_durations


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
