"""The cache keeps what saves most: within the budget, and as good as the optimum but for one row."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.minibatch.cache import SECTOR_BYTES, Accesses, plan_cache

COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3)


def plan(edge_reads, feature_reads, degrees, budget_bytes, row_bytes=64):
    """A plan for one batch's accesses."""
    accesses = Accesses(np.array(edge_reads), np.array(feature_reads), 1)
    return plan_cache(accesses, np.array(degrees), index_bytes=4, row_bytes=row_bytes, budget_bytes=budget_bytes)


def optimum(edge_reads, feature_reads, degrees, budget_bytes, row_bytes=64):
    """The most bytes that any choice of rows saves, by trying all."""
    gains = [n * SECTOR_BYTES for n in edge_reads] + [n * 64 for n in feature_reads]
    sizes = [d * 4 for d in degrees] + [row_bytes] * len(degrees)
    choices = product([0, 1], repeat=len(gains))
    return max(np.dot(c, gains) for c in choices if np.dot(c, sizes) <= budget_bytes)


@given(COUNTS, COUNTS, COUNTS, st.integers(0, 600))
def test_the_gap_holds_against_the_optimum(edge_reads, feature_reads, degrees, budget_bytes):
    """Never over the budget, never better than possible, and no farther from it than it says."""
    edge_reads = [reads if degree else 0 for reads, degree in zip(edge_reads, degrees)]
    made = plan(edge_reads, feature_reads, degrees, budget_bytes)
    best = optimum(edge_reads, feature_reads, degrees, budget_bytes)
    assert made.adjacency_bytes + made.feature_bytes <= budget_bytes
    assert made.saved_bytes <= best
    assert made.saved_bytes >= best * (1 - made.gap) - 1e-6
    assert made.saved_bytes <= made.read_bytes


def test_adjacency_and_features_compete():
    """A short list read often comes before a feature row, a long one read once after it."""
    made = plan([30, 1], [3, 3], [2, 200], 8 + 64)
    assert made.adjacency.tolist() == [0]
    assert made.features.tolist() == [0]


def test_everything_fits_a_large_budget():
    """All that was read, and nothing that was not, with nothing left to gain."""
    made = plan([5, 0, 2], [1, 1, 0], [4, 9, 1], 10**6)
    assert made.adjacency.tolist() == [0, 2]
    assert made.features.tolist() == [0, 1]
    assert made.saved_bytes == pytest.approx(made.read_bytes)
    assert made.gap == 0


def test_no_budget_keeps_nothing():
    """Nor does it divide by it."""
    made = plan([5, 1], [1, 1], [4, 9], 0)
    assert len(made.adjacency) == len(made.features) == 0
    assert made.saved_bytes == 0
