"""Factors of operators from tasks that are sums of them: bounded, shared where nothing tells them apart, robust."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.calibration.fit import LEAST_FACTOR, MOST_FACTOR, Sample, fit


def samples_of(shares, truth, *, noise=0.0, seed=0):
    """Samples whose parts are `shares` [S, O] and whose seconds the factors `truth` [O] give."""
    rng = np.random.default_rng(seed)
    return [
        Sample({f"o{i}": s for i, s in enumerate(row) if s}, float(row @ truth) * np.exp(noise * rng.normal()), 0.1)
        for row in shares
    ]


@given(
    shares=st.lists(st.lists(st.floats(0.1, 1.0), min_size=3, max_size=3), min_size=1, max_size=12),
    truth=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
)
def test_factors_stay_in_bounds(shares, truth):
    """Whatever was measured: beyond them, it is the wrong task that was measured, not a slow machine."""
    found = fit(samples_of(np.array(shares), np.array(truth)))
    assert all(LEAST_FACTOR <= factor <= MOST_FACTOR for factor in found.values())


def test_operators_seen_only_together_move_alike():
    """Nothing says which of two is slow, so neither is blamed alone."""
    found = fit(samples_of(np.array([[1.0, 1.0]] * 20), np.array([1.0, 2.0])))
    assert found["o0"] == pytest.approx(found["o1"])
    assert found["o0"] == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize("outlier", [0.05, 20.0])
def test_one_task_that_went_wrong_moves_little(outlier):
    """A task twenty times as long or as short as its operator changes the factor by a few percent."""
    samples = samples_of(np.full((12, 1), 1.0), np.array([1.5]), noise=0.02)
    samples[3] = Sample(samples[3].parts, 1.5 * outlier, samples[3].weight)
    assert fit(samples)["o0"] == pytest.approx(1.5, rel=0.06)


def test_nothing_seen_has_no_factors():
    """No samples, no fit."""
    assert fit([]) == {}


@given(st.lists(st.floats(0.3, 3.5), min_size=3, max_size=3))
def test_operators_seen_alone_have_their_own_factors(truth):
    """Nothing of one is laid to another; the ridge holds what ten samples show back by less than they can vary."""
    found = fit(samples_of(np.tile(np.eye(3), (10, 1)), np.array(truth)))
    assert [found[f"o{i}"] for i in range(3)] == pytest.approx(truth, rel=5e-3)
