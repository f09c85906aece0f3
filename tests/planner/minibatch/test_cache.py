"""The cache keeps what saves most: within the budget, and as good as the optimum but for one row."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch.cache import (
    POINTER_BYTES,
    SECTOR_BYTES,
    SLOT_BYTES,
    START_BYTES,
    Accesses,
    Sizes,
    plan_cache,
)

COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3)
ROW_BYTES = 64
SIZES = Sizes(index=4, row=ROW_BYTES)
ALL_SIZES = Sizes(index=4, row=100, edge_id=8, other_rows=(8, 40), other_edges=(64,))


def plan(edge_reads, feature_reads, degrees, budget_bytes, out_degrees=None, sizes=SIZES):
    """A plan for one batch's accesses."""
    accesses = Accesses(np.array(edge_reads), np.array(feature_reads), 1)
    out_degrees = np.array(out_degrees or [1] * len(degrees))
    return plan_cache(accesses, np.array(degrees), out_degrees, sizes, budget_bytes=budget_bytes)


def lookups(num_vertices, *, adjacency=True, features=True):
    """Bytes that finding what is kept takes."""
    a_vertex = POINTER_BYTES + adjacency * START_BYTES + features * SLOT_BYTES
    return num_vertices * a_vertex + POINTER_BYTES


def optimum(edge_reads, feature_reads, degrees, budget_bytes):
    """The most bytes that any choice of rows saves, by trying all."""
    num_vertices = len(degrees)
    gains = [n * SECTOR_BYTES for n in edge_reads] + [n * ROW_BYTES for n in feature_reads]
    sizes = [d * 4 for d in degrees] + [ROW_BYTES] * num_vertices
    saved = [0]
    for choice in product([0, 1], repeat=len(gains)):
        fixed = lookups(num_vertices, adjacency=any(choice[:num_vertices]), features=any(choice[num_vertices:]))
        if np.dot(choice, sizes) + fixed <= budget_bytes:
            saved.append(np.dot(choice, gains))
    return max(saved)


@settings(deadline=None)  # the first call compiles
@given(COUNTS, COUNTS, COUNTS, st.integers(0, 700))
def test_the_gap_holds_against_the_optimum(edge_reads, feature_reads, degrees, budget_bytes):
    """Never over the budget, never better than possible, and no farther from it than it says."""
    edge_reads = [reads if degree else 0 for reads, degree in zip(edge_reads, degrees)]
    made = plan(edge_reads, feature_reads, degrees, budget_bytes)
    best = optimum(edge_reads, feature_reads, degrees, budget_bytes)
    assert made.num_bytes <= budget_bytes
    assert made.keeps_pointers == (budget_bytes >= lookups(3, adjacency=False, features=False))
    assert made.saved_bytes <= best
    assert made.saved_bytes >= best * (1 - made.gap) - 1e-6
    assert made.saved_bytes <= made.read_bytes


@settings(deadline=None)  # the first call compiles
@given(COUNTS, COUNTS, COUNTS, st.integers(0, 700))
def test_nothing_that_fits_is_left_out(edge_reads, feature_reads, degrees, budget_bytes):
    """Of the kinds that are kept, no row that was left out fits what is left beside both lookups, read or not."""
    made = plan(edge_reads, feature_reads, degrees, budget_bytes)
    left = budget_bytes - made.adjacency_bytes - made.feature_bytes - lookups(3)
    if len(made.features):
        assert len(made.features) == 3 or left < ROW_BYTES
    if len(made.adjacency):
        out = [4 * degree for v, degree in enumerate(degrees) if degree and v not in made.adjacency]
        assert not out or left < min(out)


def test_adjacency_and_features_compete():
    """A short list read often comes before a feature row, a long one read once after it."""
    made = plan([30, 1], [3, 3], [2, 200], lookups(2) + 8 + ROW_BYTES)
    assert made.adjacency.tolist() == [0]
    assert made.features.tolist() == [0]


def test_everything_fits_a_large_budget():
    """All that there is, read or not, with nothing left to gain."""
    made = plan([5, 0, 2], [1, 1, 0], [4, 9, 1], 10**6)
    assert made.adjacency.tolist() == made.features.tolist() == [0, 1, 2]
    assert made.saved_bytes == pytest.approx(made.read_bytes)
    assert made.gap == 0
    assert made.num_bytes == lookups(3) + 14 * 4 + 3 * ROW_BYTES


def test_rows_that_nobody_read_fill_what_is_left_by_the_lists_they_are_in():
    """Room for two more feature rows: those of the vertices that most others may draw, behind the one that was read."""
    budget_bytes = lookups(4, adjacency=False) + 3 * ROW_BYTES
    made = plan([0] * 4, [0, 0, 5, 0], [1000] * 4, budget_bytes, out_degrees=[3, 1, 0, 7])
    assert made.features.tolist() == [0, 2, 3]
    assert len(made.adjacency) == 0


def test_a_kind_whose_lookup_costs_more_than_it_saves_is_left_out():
    """Starts of two thousand vertices take what a hundred feature rows need."""
    num_vertices = 2000
    reads = np.zeros(num_vertices, np.int64)
    reads[:100] = 1
    budget_bytes = lookups(num_vertices, adjacency=False) + 100 * ROW_BYTES
    made = plan(reads, reads, np.ones(num_vertices, np.int64), budget_bytes)
    assert len(made.adjacency) == 0
    assert made.features.tolist() == list(range(100))


@pytest.mark.parametrize("budget_bytes", [0, 23])
def test_no_budget_keeps_nothing(budget_bytes):
    """Nor does it divide by it; not even the pointers of two vertices, which take 24 bytes."""
    made = plan([5, 1], [1, 1], [4, 9], budget_bytes)
    assert len(made.adjacency) == len(made.features) == 0
    assert made.saved_bytes == 0
    assert made.num_bytes == 0
    assert plan([5, 1], [1, 1], [4, 9], 3 * POINTER_BYTES).num_bytes == 3 * POINTER_BYTES


def test_all_that_a_batch_reads_is_counted():
    """In whole sectors: an edge's source, id and attributes, a vertex's features and its other attributes."""
    assert (ALL_SIZES.read_of_edge, ALL_SIZES.read_of_row) == (32 + 32, 128)
    accesses = Accesses(np.array([6, 0]), np.array([3, 1]), 2)
    assert ALL_SIZES.read_bytes(accesses) == (6 * (64 + 64) + 4 * (128 + 32 + 64)) / 2
    assert SIZES.read_bytes(accesses) == (6 * 32 + 4 * 64) / 2


def test_ids_are_kept_beside_in_neighbours():
    """Three times the bytes, and two sectors an edge that are not read; other attributes are read all the same."""
    made = plan([6, 0], [3, 1], [5, 7], 10**6, sizes=ALL_SIZES)
    assert made.adjacency_bytes == 12 * (5 + 7)
    assert made.saved_bytes == 6 * 64 + 4 * 128
    assert made.read_bytes == made.saved_bytes + 6 * 64 + 4 * (32 + 64)


def test_other_batches_save_less():
    """Those that read rows which are not kept."""
    made = plan([0, 0], [5, 0], [1000, 1000], lookups(2, adjacency=False) + ROW_BYTES)
    assert made.features.tolist() == [0]
    planned, unseen = (Accesses(np.zeros(2, np.int64), np.array(reads), 1) for reads in ([5, 0], [1, 3]))
    assert made.saved_share(planned, SIZES) == made.saved_bytes / made.read_bytes == 1
    assert made.saved_share(unseen, SIZES) == 0.25
