"""Chunks follow from a seed and from how many edges leave each vertex."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gnnplan.planner.chunks.draw import chunk_of, edges_from

COUNTS = arrays(np.int64, st.integers(1, 300), elements=st.integers(0, 50))


def alike(num_nodes):
    return np.ones(num_nodes, np.int64)


def power_law(num_nodes):
    """A few vertices with most edges."""
    return (num_nodes / np.arange(10, num_nodes + 10)).astype(np.int64)


@given(COUNTS, st.integers(1, 20), st.integers(0, 2**32), st.sampled_from(["balanced", "equal"]))
def test_equal_chunks_divide_all_vertices(num_edges, num_chunks, seed, draws):
    """Sizes differ by one at most, and each vertex is in one chunk."""
    sizes = np.bincount(chunk_of(num_edges, num_chunks, seed, draws=draws), minlength=num_chunks)
    assert len(sizes) == num_chunks
    assert sizes.sum() == len(num_edges)
    assert np.ptp(sizes) <= 1


@given(COUNTS, st.integers(1, 20), st.integers(0, 2**32))
def test_balanced_chunks_have_about_as_many_edges(num_edges, num_chunks, seed):
    """Those of two chunks differ by those of one vertex at most: whoever has fewest is given the most that are left."""
    chunk = chunk_of(num_edges, num_chunks, seed)
    assert np.ptp(np.bincount(chunk, num_edges, num_chunks)) <= num_edges.max()


def test_where_few_vertices_have_most_edges_balance_pays():
    """The steps of an epoch then take about as long."""
    num_edges = power_law(20_000)
    spread = {
        draws: np.ptp(np.bincount(chunk_of(num_edges, 10, 0, draws=draws), num_edges)) / num_edges.sum() * 10
        for draws in ("balanced", "equal")
    }
    assert spread["balanced"] < 0.02 < 0.2 < spread["equal"]


def test_seeds_and_divisions_draw_others():
    """The same seed gives the same chunks, on any machine."""
    for draws in ("balanced", "equal"):
        found = [chunk_of(alike(1000), 5, seed, shuffle, draws) for seed in (0, 1) for shuffle in (0, 1)]
        assert all((one != other).mean() > 0.7 for i, one in enumerate(found) for other in found[:i])
        np.testing.assert_array_equal(chunk_of(alike(1000), 5, 1, 1, draws), found[3])
    assert chunk_of(alike(12), 3, 7, draws="equal").tolist() == [0, 0, 2, 2, 1, 0, 1, 0, 2, 1, 2, 1]


@pytest.mark.parametrize("draws", ["balanced", "equal", "independent"])
def test_chunks_are_uniform(draws):
    """Neighbouring vertices are in the same chunk as often as any two: one time in B."""
    found = chunk_of(np.arange(100_000) % 7, 10, 3, draws=draws)
    assert np.bincount(found) == pytest.approx(10_000, rel=0.04)
    assert (found[1:] == found[:-1]).mean() == pytest.approx(0.1, rel=0.05)


def test_independent_draws_have_sizes_of_their_own():
    """As equation 2 of the paper draws them."""
    assert np.ptp(np.bincount(chunk_of(alike(10_000), 10, 3, draws="independent"))) > 1


def test_edges_are_those_that_leave_without_self_loops():
    """Of all matrices together."""
    one = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]]))
    assert edges_from([one]).tolist() == [0, 2, 1]
    assert edges_from([one, one.T.tocsr()]).tolist() == [1, 3, 2]
