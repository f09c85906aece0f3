"""Bounds and the relaxed ratio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.minibatch.bound import epoch_bound, relaxed_epoch_s, relaxed_ratio
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
@given(TIMES, st.integers(1, 40))
def test_the_bound_grows_with_the_epoch(stage, num_batches):
    """One batch more cannot be trained in less; its split lies within the epoch."""
    bound, more = epoch_bound(stage, num_batches), epoch_bound(stage, num_batches + 1)
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
