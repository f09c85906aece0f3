"""Parts of a matrix: counts are those of what is cut out, which is the rows and columns of the matrix."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import Cut, column_counts, cut_out, has_entries, of_rows, over_columns


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
    _check_like_its_matrix(cut, slice(start, stop), 1.0)


@given(parts(), st.data())
def test_some_columns_times_a_factor(part, data):
    """As of what is cut out; of a part of a part, too."""
    cut = Cut.of(*part)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(cut.columns), max_size=len(cut.columns))), bool)
    _check_like_its_matrix(cut, mask, 2.5)
    _check_like_its_matrix(cut.over(slice(None), 3.0), mask, 0.5)


@given(parts(), st.data())
def test_some_rows(part, data):
    """As of what is cut out."""
    cut = Cut.of(*part).over(slice(None), 2.0)
    rows = np.array(data.draw(st.lists(st.sampled_from(range(len(cut.rows)))) if len(cut.rows) else st.just([])), int)
    some = of_rows(cut, rows)
    assert np.array_equal(cut_out(some).toarray(), of_rows(cut.cut_out(), rows).toarray())
    assert some.nnz == cut_out(some).nnz


def _check_like_its_matrix(cut, columns, factor):
    over = over_columns(cut, columns, factor)
    assert np.array_equal(cut_out(over).toarray(), over_columns(cut.cut_out(), columns, factor).toarray())
    assert over.nnz == cut_out(over).nnz


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
