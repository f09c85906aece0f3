"""Parts of a matrix: counts are those of what is cut out, which is the rows and columns of the matrix."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import Cut, column_counts, cut_out, has_entries, over_columns


@st.composite
def parts(draw):
    """A matrix with repeated entries, and some rows and columns of it in any order."""
    n, rng = draw(st.integers(1, 12)), np.random.default_rng(draw(st.integers(0, 9999)))
    num_edges = draw(st.integers(0, 5 * n))
    row, column = np.sort(rng.integers(0, n, num_edges)), rng.integers(0, n, num_edges)
    matrix = sp.csr_matrix((rng.random(num_edges), column, np.searchsorted(row, np.arange(n + 1))), shape=(n, n))
    rows, columns = (rng.permutation(n)[: rng.integers(0, n + 1)] for _ in range(2))
    return matrix, rows, columns


@given(parts())
def test_counts_are_those_of_what_is_cut_out(part):
    """Of all entries, of every column's, and in the same order of rows and columns."""
    matrix, rows, columns = part
    cut = Cut.of(matrix, rows, columns)
    made = cut.cut_out()
    assert np.array_equal(made.toarray(), matrix.toarray()[np.ix_(rows, columns)])
    assert cut.nnz == made.nnz
    assert cut.shape == made.shape
    assert np.array_equal(column_counts(cut), column_counts(made))


@given(parts(), st.data())
def test_a_run_of_columns(part, data):
    """As of what is cut out."""
    matrix, rows, columns = part
    start = data.draw(st.integers(0, len(columns)))
    stop = data.draw(st.integers(start, len(columns)))
    cut = Cut.of(matrix, rows, columns)
    run = over_columns(cut, start, stop)
    assert np.array_equal(cut_out(run).toarray(), over_columns(cut.cut_out(), start, stop).toarray())
    assert run.nnz == cut_out(run).nnz


@given(parts())
def test_columns_with_entries(part):
    """Those of some rows."""
    matrix, rows, _ = part
    assert np.flatnonzero(has_entries(matrix, rows)).tolist() == np.unique(matrix[rows].indices).tolist()


def test_a_worker_cuts_each_part_once():
    """Names that share a part share what is cut out of it, so that it is stored once."""
    matrix = sp.identity(4, format="csr")
    cut = Cut.of(matrix, np.array([1, 2]), np.array([2, 1]))
    arrays = Arrays(matrices={"a": (cut,), "b": (cut,), "c": (matrix,)}).of_worker(0)
    assert arrays.matrices["a"][0] is arrays.matrices["b"][0]
    assert arrays.matrices["c"][0] is matrix
