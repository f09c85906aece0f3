"""A host's region holds the rows of every kept step, one after the other and none over another."""

import numpy as np
import pytest

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.planner.joint_cache.layout import RegionLayout, shared_widths
from gnnplan.planner.joint_cache.region import decide_rows
from tests.planner.joint_cache.cases import program_of

EDGES = np.array([[0, 0, 1], [1, 2, 2]])
STAR = build_halo(aggregation_matrix(3, EDGES, "sage"), np.array([0, 1, 2]), 3)


@pytest.mark.parametrize(("interval", "widths"), [(1, [5]), (4, [5, 3])])
def test_a_layout_has_what_is_kept(interval, widths):
    """Features always, embeddings where they are reused; nothing overlaps, and it ends where it says."""
    cache = decide_rows(STAR, [0, 0, 0], [0, 0, 1], [2, 1], refresh_interval=interval)
    layout = RegionLayout.of(program_of(), cache, [0, 0, 1], 0)
    assert (layout.num_rows, [*layout.widths.values()], layout.num_workers) == (cache.region.num_rows[0], widths, 2)
    ends = [8 * len(widths) * 2]
    for number, width in enumerate(widths):
        assert layout.offset(number) >= ends[-1]
        assert layout.offset(number) % 64 == 0
        ends.append(layout.offset(number) + 4 * layout.num_rows * width)
    assert ends[-1] <= layout.num_bytes < ends[-1] + 64


def test_no_cache_lays_nothing_out():
    """No rows, no steps."""
    assert shared_widths(program_of(), NO_CACHE) == {}
    assert RegionLayout.of(program_of(), NO_CACHE, [0, 0], 0).num_rows == 0


@pytest.mark.parametrize(
    ("num_rows", "widths", "num_workers", "offsets"),
    [
        (3, (5, 1), 2, [64, 128, 192]),
        (16, (4, 4), 5, [128, 384, 640]),
        (0, (5,), 3, [64, 64]),
        (7, (), 9, [128]),
    ],
)
def test_everything_begins_at_a_cache_line(num_rows, widths, num_workers, offsets):
    """Stamps of eight bytes a step and worker come first; without rows there are these alone."""
    layout = RegionLayout(num_rows, {f"l{layer}": width for layer, width in enumerate(widths)}, num_workers)
    assert [layout.offset(number) for number in range(len(widths) + 1)] == offsets
    assert layout.num_bytes == offsets[-1]
