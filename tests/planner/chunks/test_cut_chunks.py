"""An aggregation in parts is the aggregation."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.chunks.cut import take_apart


@st.composite
def matrices(draw):
    """CSR with repeated entries, self loops and empty rows, and a chunk of every vertex."""
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows, columns = np.sort(rng.integers(0, n, 3 * n)), rng.integers(0, n, 3 * n)
    indptr = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
    data = rng.random(3 * n).astype(np.float32)
    return sp.csr_matrix((data, columns.astype(np.int32), indptr), shape=(n, n)), rng.integers(0, 3, n)


@given(matrices())
def test_parts_add_up(made):
    """Each edge is in one chunk, self loops are in none, and repeated edges stay apart."""
    matrix, chunk = made
    parts = take_apart(matrix, (chunk,), 3)
    *chunks, everything = parts.pushed
    assert sum(each.nnz for each in chunks) == everything.nnz == matrix.nnz - parts.loops.nnz
    whole = sum(each.toarray() for each in chunks) + parts.loops.toarray()
    np.testing.assert_allclose(whole, matrix.toarray(), rtol=1e-6)
    assert not any(each.diagonal().any() for each in chunks)
    assert all(set(chunk[each.indices]) <= {number} for number, each in enumerate(chunks))


@given(matrices())
def test_what_is_left_follows_equation_6(made):
    """It is 1 less the chunk's share of a target's edges, so a pass leaves B - 1 in all where there are edges."""
    matrix, chunk = made
    parts = take_apart(matrix, (chunk,), 3)
    *left, after_all = (each.diagonal() for each in parts.left)
    degree = np.diff(parts.pushed[-1].indptr)
    assert all(((each >= 0) & (each <= 1)).all() for each in left)
    assert sum(left)[degree > 0] == pytest.approx(2, abs=1e-6)
    assert (np.array(left)[:, degree == 0] == 1).all()
    assert not after_all[degree > 0].any()


@given(matrices(), st.floats(0.01, 1), st.floats(0.01, 1))
def test_what_fades_leaves_its_weight_to_the_chunk(made, fade, mass_fade):
    """Of edges of one weight a state that has all of them keeps all of them; where nobody pushes, it rests."""
    matrix, chunk = made
    matrix.data[:] = 1
    parts, plain = take_apart(matrix, (chunk,), 3, fade, mass_fade), take_apart(matrix, (chunk,), 3)
    degree = np.diff(plain.entries[-1].indptr)
    for entries, pushed, left, masses, beta in zip(
        parts.entries, parts.pushed, parts.left, parts.masses, plain.left, strict=True
    ):
        np.testing.assert_allclose(pushed.sum(1).A1 + left.diagonal() * degree, degree, rtol=1e-5)
        np.testing.assert_allclose(masses.diagonal(), mass_fade * beta.diagonal(), rtol=1e-6)
        rests = np.diff(entries.indptr) == 0
        np.testing.assert_allclose(left.diagonal()[rests], beta.diagonal()[rests], rtol=1e-5)
        assert (left.diagonal() <= beta.diagonal() + 1e-6).all()


def test_every_row_has_an_entry():
    """Also where nothing is left: what is left is read row by row."""
    parts = take_apart(sp.csr_matrix(np.ones((4, 4), np.float32)), (np.zeros(4, int),), 1)
    assert [each.nnz for each in parts.left] == [4, 4]


@given(matrices(), st.floats(0.01, 0.99))
def test_masses_that_fade_add_up(made, mass_fade):
    """What is left of a mass of equal edges and what the chunk brings, scaled, are that mass again."""
    matrix, chunk = made
    parts, plain = take_apart(matrix, (chunk,), 3, 1.0, mass_fade), take_apart(matrix, (chunk,), 3)
    degree = np.diff(plain.entries[-1].indptr)
    for entries, masses, scales in zip(parts.entries, parts.masses, parts.scales, strict=True):
        brought = np.diff(entries.indptr)
        np.testing.assert_allclose(
            scales.diagonal() * (masses.diagonal() * degree + brought), degree, rtol=1e-5, atol=1e-5
        )
    assert not plain.scales
