"""Quantiles of residuals cover what is drawn alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.interval.residuals import PAIRS, RESIDUALS, quantile


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=40), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_it_grows_with_the_level(residuals, one, other):
    """Also beyond the largest residual, where there are too few for the level."""
    ascending = sorted(residuals)
    assert quantile(ascending, min(one, other)) <= quantile(ascending, max(one, other))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_it_covers_what_is_drawn_alike(level):
    """In the mean over tables, no less than was said; and hardly more than one rank above it."""
    rng, count = np.random.default_rng(0), 30
    draws = np.sort(rng.exponential(size=(4000, count)))
    new = rng.exponential(size=len(draws))
    covered = np.mean([fresh <= quantile(row, level) for row, fresh in zip(draws.tolist(), new, strict=True)])
    assert level - 0.02 <= covered <= level + 1 / (count + 1) + 0.02


def test_tables_are_ascending():
    """`quantile` takes them so."""
    for table in (*RESIDUALS.values(), PAIRS):
        assert list(table) == sorted(table)
        assert table[0] >= 0
