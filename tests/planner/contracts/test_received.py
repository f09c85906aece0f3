"""Which rows workers could keep: those they receive, the shared ones first, as many as there is room for."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.contracts.received import kept_rows, received_rows
from tests.planner.search.searched import found

PINS = {
    "num_workers": 3,
    "balance": "speed",
    "precompute": False,
    "feature_cache": False,
    "op_order": "aggregate_first",
    "dependencies": "communicate",
    "techniques": {"halo_exchange": True},
}
BEST = found("wide", **PINS).best


def halos(candidate):
    """By worker, the vertices of others that its vertices' rows are gathered from."""
    part, matrix = candidate.choice("halo_exchange").arrays["part"], candidate.setting.matrix
    return [np.setdiff1d(np.unique(matrix[part == w].indices), np.flatnonzero(part == w)) for w in range(3)]


@pytest.mark.parametrize(("constant", "level", "width"), [(True, 0, 900), (False, 1, 32)])
def test_rows_received_are_the_halos(constant, level, width):
    """Of features at level 0, of hidden rows at level 1, each with its bytes."""
    rows, num_bytes = received_rows(BEST, constant=constant)
    assert set(rows[0]) == {level}
    assert set(num_bytes) == {4.0 * width}
    for worker, halo in enumerate(halos(BEST)):
        assert rows[2, rows[1] == worker].tolist() == halo.tolist()


def test_all_are_kept_where_there_is_room():
    """One proposal, which is all of them."""
    (kept,) = kept_rows(BEST, constant=True)
    np.testing.assert_array_equal(kept, received_rows(BEST, constant=True)[0])


def tight(num_rows):
    """The candidate on devices with room for so many rows of features beside what it takes."""
    place = BEST.setting.placement
    workers = tuple(
        worker.model_copy(update={"memory_bytes": memory.peak_bytes + 4 * 900 * num_rows})
        for worker, memory in zip(place.workers, BEST.memory, strict=True)
    )
    setting = replace(BEST.setting, placement=place.model_copy(update={"workers": workers}))
    return replace(BEST, setting=setting)


def test_as_many_are_kept_as_fit_and_shared_ones_first():
    """Then half of them, and so on; within a worker nobody reads a row less often than one that was left out."""
    proposals = list(kept_rows(tight(40), constant=True))
    rows = received_rows(BEST, constant=True)[0]
    readers = np.bincount(rows[2], minlength=BEST.setting.graph.num_nodes)
    assert [np.bincount(kept[1]).tolist() for kept in proposals[:3]] == [[40] * 3, [20] * 3, [10] * 3]
    for kept in proposals:
        for worker in range(3):
            mine = kept[2, kept[1] == worker]
            others = np.setdiff1d(rows[2, rows[1] == worker], mine)
            assert readers[mine].min() >= readers[others].max()


def test_nothing_is_kept_without_room():
    """Nor is anything proposed."""
    assert list(kept_rows(tight(0), constant=True)) == []
