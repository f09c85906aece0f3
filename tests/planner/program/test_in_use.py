"""How unevenly a matrix reads rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.costs import num_in_use
from gnnplan.planner.program.in_use import share_in_use, whole_block
from gnnplan.planner.program.parts import Block
from gnnplan.profiles.kernels.sparse import IN_A_CORE


def test_all_are_in_use_where_each_is_read_as_often():
    """Rows that nobody reads count for nothing."""
    assert share_in_use(np.full(7, 3)) == 1
    assert share_in_use(np.array([0, 5, 5, 0])) == 1


def test_fewer_are_where_some_are_read_more_often():
    """Of 9 and 1 reads the square of 3 + 1, over 10: that is 1.6 of 2."""
    assert share_in_use(np.array([9, 0, 1])) == pytest.approx(0.8)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50))
def test_equal_rows_may_be_told_together(times_read):
    """Degrees in bins tell the same as one by one, and it is a share of those read."""
    values, counts = np.unique(times_read, return_counts=True)
    share = share_in_use(np.array(times_read))
    assert share_in_use(values, counts) == pytest.approx(share, abs=1e-6)
    assert 1 / max(1, np.count_nonzero(times_read)) - 1e-6 <= share <= 1


def test_a_block_knows_both_directions():
    """Every row has one entry, all in the same column but one: forward two rows are read, back all of them evenly."""
    matrix = sp.csr_matrix((np.ones(10), np.array([0] * 9 + [2]), np.arange(11)), shape=(10, 5))
    assert whole_block("A", "rows", "columns", matrix) == Block("A", "rows", "columns", (10,), in_use=(0.8, 1.0))


def test_a_part_has_the_share_of_the_whole():
    """Between the same rows where no others are said; its matrices are others."""
    whole = Block("A", "rows", "columns", (10,), content="B", in_use=(0.8, 0.5))
    assert whole.part("P", (3,)) == Block("P", "rows", "columns", (3,), in_use=(0.8, 0.5))
    assert whole.part("P", (3,), row="own", column="halo") == Block("P", "own", "halo", (3,), in_use=(0.8, 0.5))


def test_as_few_as_a_cache_holds_are_all_in_use():
    """Where none has to come back from memory it does not matter how often each is read."""
    least = IN_A_CORE // 64
    assert num_in_use(0.1, least, 64) == least
    assert num_in_use(0.1, 5 * least, 64) == least
    assert num_in_use(0.1, 50 * least, 64) == 5 * least
