"""Intervals contain the prediction, are nested, and widen with what is uncertain."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.interval.interval import Interval
from gnnplan.planner.interval.residuals import RESIDUALS

kinds = st.sampled_from(sorted(RESIDUALS))
seconds = st.floats(1e-6, 1e5)
levels = st.floats(0.01, 0.995)
deviations = st.floats(0, 1)
shares = st.floats(0, 1)


@given(seconds, kinds, deviations, shares, levels, levels)
def test_levels_are_nested_around_the_prediction(middle_s, kind, deviation, share, one, other):
    """A higher level is wider, on both sides, and every level contains the prediction."""
    low, high = sorted((one, other))
    inner = Interval.around(middle_s, kind, deviation, share, low)
    outer = inner.at(high)
    assert outer.low_s <= inner.low_s <= middle_s <= inner.high_s <= outer.high_s


@given(seconds, kinds, deviations, deviations, shares, shares, levels)
def test_what_is_less_certain_is_wider(middle_s, kind, one, other, share, other_share, level):
    """It never narrows when operators spread more, or more of the epoch is guessed."""
    narrow = Interval.around(middle_s, kind, min(one, other), min(share, other_share), level)
    wide = Interval.around(middle_s, kind, max(one, other), max(share, other_share), level)
    assert wide.low_s <= narrow.low_s
    assert narrow.high_s <= wide.high_s


def test_a_guess_widens_it():
    """What is guessed altogether may take half as long, or twice."""
    sure, guessed = (Interval.around(1.0, "profiled", 0.0, share) for share in (0.0, 1.0))
    assert guessed.high_s > 2 > 1.3 > sure.high_s > 1.05
    assert guessed.low_s == pytest.approx(1 / guessed.high_s)


def test_calibration_by_the_same_work_narrows_it():
    """By other work it does not: those runs missed by about as much as runs without any calibration."""
    widths = {kind: math.log(Interval.around(1.0, kind, 0.0, 0.0).high_s) for kind in RESIDUALS}
    assert widths["calibrated"] < 0.8 * min(widths["profiled"], widths["calibrated elsewhere"])
