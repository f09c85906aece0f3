"""What one worker sees of a cycle fits what all others see."""

import numpy as np
import pytest

from gnnplan.planner.program.project import project
from tests.planner.composition.chosen import NUM_WORKERS, Chosen, cycle_of

SETS = {
    "halo rows": ("halo_exchange",),
    "kept and made": ("joint_cache", "replicas"),
    "dropped": ("pruning",),
    "slices": ("feature_slices",),
}
BY_ROWS = ("halo rows", "kept and made", "dropped")


@pytest.mark.parametrize("names", [SETS[name] for name in BY_ROWS], ids=BY_ROWS)
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_what_is_sent_is_what_is_received(model, names):
    """The same vertices in the same order, over every route and between any two workers, and on the way back."""
    cycle = cycle_of(Chosen(model, names))
    parts = [project(cycle, rank) for rank in range(NUM_WORKERS)]
    assert cycle.routes
    for name, route in cycle.routes.items():
        for sender in parts:
            for receiver in parts:
                sent = _segment(sender, route.source, sender.counts(name, back=False)[0], receiver.rank)
                received = _segment(receiver, route.target, receiver.counts(name, back=False)[1], sender.rank)
                assert np.array_equal(sent, received)
        assert all(part.counts(name, back=True) == part.counts(name, back=False)[::-1] for part in parts)


def _segment(part, space, counts, other):
    """Global vertices of the rows that are to or from another worker."""
    first = sum(counts[:other])
    return part.cycle.arrays.ids[space][0][first : first + counts[other]]


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
def test_sizes_and_arrays_are_the_workers_own(names):
    """One entry of each, that of its rank."""
    cycle = cycle_of(Chosen("gcn", names))
    for rank in range(NUM_WORKERS):
        part = project(cycle, rank)
        assert (part.rank, part.num_workers, part.cycle.num_workers) == (rank, NUM_WORKERS, 1)
        for name, space in part.cycle.spaces.items():
            assert space.sizes == (cycle.spaces[name].sizes[rank],)
        for name, block in part.cycle.blocks.items():
            (matrix,) = part.cycle.arrays.matrices[name]
            assert block.num_edges == (cycle.blocks[name].num_edges[rank],)
            assert matrix.nnz == block.num_edges[0]
