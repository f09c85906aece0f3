"""Chunks follow from a seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.chunks.draw import chunk_of


@given(st.integers(1, 500), st.integers(1, 20), st.integers(0, 2**32))
def test_equal_chunks_divide_all_vertices(num_nodes, num_chunks, seed):
    """Sizes differ by one at most, and each vertex is in one chunk."""
    sizes = np.bincount(chunk_of(num_nodes, num_chunks, seed), minlength=num_chunks)
    assert len(sizes) == num_chunks
    assert sizes.sum() == num_nodes
    assert np.ptp(sizes) <= 1


def test_seeds_and_divisions_draw_others():
    """The same seed gives the same chunks, on any machine."""
    found = [chunk_of(1000, 5, seed, shuffle) for seed in (0, 1) for shuffle in (0, 1)]
    assert all((one != other).mean() > 0.7 for i, one in enumerate(found) for other in found[:i])
    np.testing.assert_array_equal(chunk_of(1000, 5, 1, 1), found[3])
    assert chunk_of(12, 3, 7).tolist() == [0, 0, 2, 2, 1, 0, 1, 0, 2, 1, 2, 1]


@pytest.mark.parametrize("draws", ["equal", "independent"])
def test_chunks_are_uniform(draws):
    """Neighbouring vertices are in the same chunk as often as any two: one time in B."""
    found = chunk_of(100_000, 10, 3, draws=draws)
    assert np.bincount(found) == pytest.approx(10_000, rel=0.04)
    assert (found[1:] == found[:-1]).mean() == pytest.approx(0.1, rel=0.05)


def test_independent_draws_have_sizes_of_their_own():
    """As equation 2 of the paper draws them."""
    assert np.ptp(np.bincount(chunk_of(10_000, 10, 3, draws="independent"))) > 1
