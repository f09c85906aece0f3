"""A rate is fair or slow: told apart where two states are there, and not where one explains all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.weather.model import TwoState
from gnnplan.planner.weather.two_state import durations, split


def series(is_slow, slowdown, noise, seed):
    rng = np.random.default_rng(seed)
    return 0.2 * np.where(is_slow, slowdown, 1.0) * np.exp(rng.normal(0, noise, len(is_slow)))


@settings(max_examples=40, deadline=None)
@given(st.floats(1.5, 10), st.floats(0.0, 0.05), st.integers(1, 40), st.integers(0, 9))
def test_two_states_that_are_apart_are_told_apart(slowdown, noise, num_slow, seed):
    """Every epoch's state and the share of the rate, whatever the share of slow ones and the noise."""
    is_slow = np.random.default_rng(seed).permutation(np.arange(100) < num_slow)
    found, share = split(series(is_slow, slowdown, noise, seed))
    assert np.array_equal(found, is_slow)
    assert share == pytest.approx(1 / slowdown, rel=0.1)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.0, 0.3), st.integers(20, 200), st.integers(0, 9))
def test_one_state_is_not_split(noise, num_epochs, seed):
    """Noise alone, however much of it, is one state: a second one would not explain it better."""
    found = split(series(np.zeros(num_epochs, bool), 1.0, noise, seed))
    assert found is None or found[0].mean() < 0.1


@pytest.mark.parametrize("slowdown", [1.02, 1.08])
def test_a_second_state_that_is_hardly_slower_is_none(slowdown):
    """However clear it is: within a tenth of the rate it would change no plan."""
    assert split(series(np.arange(100) % 2 == 0, slowdown, 0.0, 0)) is None


def test_durations_are_time_in_a_state_by_how_often_it_was_left():
    """Spells cut short by the run's ends count with their time; what was never left, as left once."""
    lengths_s = np.array([1.0, 1, 3, 3, 1, 1, 1, 3, 1, 1])
    is_slow = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 0], bool)
    assert durations(is_slow, lengths_s, 0.3) == TwoState(share=0.3, fair_s=7 / 2, slow_s=9 / 2)
    assert durations(is_slow[:4], lengths_s[:4], 0.3) == TwoState(share=0.3, fair_s=2, slow_s=6)
    assert durations(np.zeros(10, bool), lengths_s, 0.3) is None
    assert durations(np.ones(10, bool), lengths_s, 0.3) is None
