"""Equal arrays are found, whatever order they are met in, and no others are taken for them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.program.cuts import Cut
from gnnplan.planner.program.sharing import Contents

LONG = np.arange(1000)
CHANGED = np.where(LONG == 501, 0, LONG)  # where no sample is taken
MATRIX = sp.csr_matrix(np.eye(4, dtype=np.float32))
DIFFERENT = [
    (LONG,),
    (CHANGED,),
    (LONG.astype(np.int32),),
    (LONG[:-1],),
    (LONG.reshape(10, 100),),
    (LONG, LONG),
    (),
    (MATRIX,),
    (2 * MATRIX,),
    (sp.csr_matrix(np.eye(4, 5, dtype=np.float32)),),
    (Cut.of(MATRIX, np.arange(2), np.arange(3)),),
    (Cut.of(MATRIX, np.arange(2), np.arange(1, 4)),),
    (Cut.of(MATRIX, np.arange(2), np.arange(1, 4), 2.0),),
]


def copied(each):
    """The same in other memory; what is cut out of a matrix is of the same one."""
    return tuple(
        Cut.of(array.source, array.rows.copy(), array.columns.copy(), array.factor)
        if isinstance(array, Cut)
        else array.copy()
        for array in each
    )


@given(st.lists(st.integers(0, len(DIFFERENT) - 1), max_size=40))
def test_the_first_equal_ones_stand_for_all(numbers):
    """Met again and again, in any order, as copies."""
    contents, first = Contents(), {}
    for number in numbers:
        met = copied(DIFFERENT[number])
        assert contents.first(met) is first.setdefault(number, met)
        assert contents.first(met) is first[number]


def test_bytes_of_what_is_kept_are_counted_once():
    """However often it is met."""
    contents, one, two = Contents(), (LONG,), (LONG.copy(), MATRIX)
    for each in (one, two, one, two):
        contents.first(each)
    of_matrix = MATRIX.data.nbytes + MATRIX.indices.nbytes + MATRIX.indptr.nbytes
    assert contents.num_bytes == 2 * LONG.nbytes + of_matrix


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_none_is_equal_to_another(number):
    """In kind, shape, or a single element."""
    contents = Contents()
    for each in DIFFERENT:
        contents.first(each)
    assert contents.first(copied(DIFFERENT[number])) is DIFFERENT[number]
