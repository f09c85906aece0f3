"""How many programs need nothing that was kept, of cycles with and without rows that are used again."""

import pytest

from gnnplan.planner.program.cells import num_fresh
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from tests.planner.techniques.source_chunks.chunked import Chunked
from tests.planner.techniques.source_chunks.test_chunked_pairs import beside


@pytest.mark.parametrize(
    ("decision", "interval", "fresh", "whole"),
    [
        (Chunks(), 1, 1, 1),
        (Chunks(), 3, 1, 3),
        (Chunks(num_chunks=3), 1, 3, 3),
        (Chunks(num_chunks=3), 2, 3, 6),
        (Chunks(num_chunks=2, exact_every=2), 2, 4, 8),
    ],
)
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_programs_in_which_rows_travel_come_first(model, decision, interval, fresh, whole):
    """A state of chunks is needed in all of them, so it makes none of them less fresh."""
    kept = beside("joint_cache", model, interval=interval)
    cycle = Chunked(model, decision, 3, beside=(kept,)).cycle()
    assert (num_fresh(cycle), len(cycle.order)) == (fresh, whole)


def test_what_rounding_left_starts_at_zero():
    """Each chunk's rows have an error of their own, which no other chunk's have to come before."""
    cycle = Chunked("gcn", Chunks(num_chunks=3), 3, beside=(beside("compression", "gcn"),)).cycle()
    assert (num_fresh(cycle), len(cycle.order)) == (3, 3)
