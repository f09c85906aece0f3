"""Bounds and the relaxed ratio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch.bound import epoch_bound, relaxed_epoch_s, relaxed_ratio, split_bounds
from tests.planner.minibatch.test_simulate import TIMES, times


@settings(max_examples=100, deadline=None)
@given(TIMES)
def test_no_ratio_beats_the_relaxed_one(stage):
    """On a fine grid of ratios from nothing to almost everything on the GPU."""
    best_s = min(relaxed_epoch_s(stage, x, 1) for x in np.geomspace(1e-3, 1e3, 2000))
    ratio = relaxed_ratio(stage)
    found_s = stage.gpu_batching_s + stage.model_s if np.isinf(ratio) else relaxed_epoch_s(stage, ratio, 1)
    assert found_s <= best_s + 1e-12


@settings(max_examples=100, deadline=None)
@given(TIMES, st.integers(1, 40), st.integers(1, 9))
def test_the_bound_grows_with_the_epoch(stage, num_batches, num_threads):
    """One batch more cannot be trained in less; its split lies within the epoch."""
    bound, more = (epoch_bound(stage, count, num_threads) for count in (num_batches, num_batches + 1))
    assert 0 <= bound.num_gpu_batches <= num_batches
    assert bound.seconds < more.seconds


@pytest.mark.parametrize(
    ("stage", "set_by"),
    [(times(100, 1e6, 1, 1), "CPU"), (times(1, 1e6, 50, 1), "PCIe"), (times(1, 1e6, 1, 50), "GPU")],
)
def test_what_sets_the_bound_is_what_is_slow(stage, set_by):
    """With GPU batching out of the question, the slowest stage of the CPU's route."""
    assert epoch_bound(stage, 100).set_by == set_by


def test_the_relaxed_problem_at_both_ends():
    """Where GPU batching is much faster it does all, where it is much slower nothing."""
    assert relaxed_ratio(times(1000, 1, 900, 1)) > 10
    assert relaxed_ratio(times(1, 1000, 1, 10)) == 0


def test_threads_make_whole_rounds():
    """Four of them with 10 ms a batch between them: by the CPU alone eight batches take two rounds, nine take three.

    The last round's come together, and are trained one after another.
    """
    stage = times(10, 1e6, 0, 2)
    eight, nine = (epoch_bound(stage, count, 4).seconds for count in (8, 9))
    assert (eight, nine) == (pytest.approx((80 + 4 * 2) / 1e3), pytest.approx((120 + 2) / 1e3))
    assert epoch_bound(stage, 8).seconds == pytest.approx((80 + 2) / 1e3)


def test_a_split_that_fills_its_rounds_is_the_better_one():
    """Of a hundred batches with fifteen threads: 45 by the CPU are three rounds of 60 ms, 46 are four."""
    stage = times(4, 2.28, 0.5, 1)
    bound = epoch_bound(stage, 100, 15)
    assert (bound.num_gpu_batches, bound.set_by) == (55, "GPU")
    assert bound.seconds == pytest.approx((100 * 1 + 55 * 2.28) / 1e3)
    full, one_more = split_bounds(stage, 100, np.array([55, 54]), 15)
    assert one_more == pytest.approx((4 * 60 + 0.5 + 1) / 1e3)
    assert full < one_more


@settings(max_examples=100, deadline=None)
@given(TIMES, st.integers(1, 60), st.integers(1, 9))
def test_the_bound_is_the_least_of_all_splits(stage, num_batches, num_threads):
    """And more threads, which bring their batches later, never lower it."""
    least_s = split_bounds(stage, num_batches, np.arange(num_batches + 1), num_threads)
    bound = epoch_bound(stage, num_batches, num_threads)
    assert bound.seconds == least_s.min() == least_s[bound.num_gpu_batches]
    assert bound.seconds >= epoch_bound(stage, num_batches).seconds - 1e-12


def test_an_epoch_of_the_gpus_alone_has_its_own_training_steps():
    """They are shorter while the CPU's threads rest; with a batch of these they are not."""
    stage = times(1000, 1, 900, 20, model_alone_s=0.012)
    assert epoch_bound(stage, 10).seconds == pytest.approx(10 * (0.001 + 0.012))
    assert split_bounds(stage, 10, np.array([9]))[0] >= 10 * 0.02


@settings(max_examples=100, deadline=None)
@given(TIMES, st.integers(1, 40), st.integers(1, 9), st.integers(1, 60))
def test_room_on_the_device_never_raises_the_bound(stage, num_batches, num_threads, resident_ms):
    """Plans over PCIe stay possible, those from the device alone come to them."""
    resident = stage.model_copy(update={"resident_batching_s": resident_ms / 1e3})
    bound = epoch_bound(resident, num_batches, num_threads)
    assert bound.seconds <= epoch_bound(stage, num_batches, num_threads).seconds
    assert bound.seconds <= num_batches * (resident_ms / 1e3 + stage.model_s) + 1e-12
