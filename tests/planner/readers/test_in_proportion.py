"""Totals that are shared out in proportion, however large."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.readers.cost import in_proportion


@given(st.lists(st.lists(st.integers(0, 2**27), min_size=3, max_size=3), min_size=3, max_size=3), st.data())
def test_parts_add_up_and_are_in_proportion(parts, data):
    """By Python's own numbers, which never overflow."""
    totals = data.draw(st.lists(st.integers(0, 2**50), min_size=3, max_size=3))
    found = in_proportion(np.array(parts, np.int64), np.array(totals, np.int64))
    for its, row, total in zip(found.tolist(), parts, totals):
        assert min(its) >= 0
        assert sum(its) == (total if sum(row) else 0)
        until = [sum(row[: at + 1]) * total // max(sum(row), 1) for at in range(3)]
        assert np.cumsum(its).tolist() == until
