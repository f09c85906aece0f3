"""What was pruned for nothing is kept: nobody takes longer than who takes longest, and nothing more would fit in."""

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.techniques.pruning.adjust_halos import adjust_halos
from gnnplan.planner.techniques.pruning.pairs import HaloPairs
from gnnplan.planner.techniques.pruning.restore import restore
from tests.planner.techniques.pruning.cases import always_fits, linear_cases


@settings(deadline=None)
@given(linear_cases(max_pairs=14))
def test_the_largest_cost_stays_and_nothing_more_can_be_kept(case):
    """Per worker all that is pruned ranks below all that is kept, and the next one would be too much."""
    pairs, cost = case
    pruned = adjust_halos(pairs, cost, always_fits)
    kept = restore(pairs, cost, always_fits, pruned)
    highest = cost(pairs.loads(pruned)).max()
    assert (kept | ~pruned).all()
    assert cost(pairs.loads(kept)).max() <= highest * (1 + 1e-9)
    for worker in range(pairs.num_workers):
        own = pairs.worker == worker
        assert pairs.influence[own & ~kept].max(initial=0) <= pairs.influence[own & kept].min(initial=np.inf)
        if (own & ~kept).any():
            more = kept.copy()
            more[max(np.flatnonzero(own & ~kept), key=lambda k: pairs.influence[k])] = True
            assert cost(pairs.loads(more)).max() > highest


@pytest.mark.parametrize("room", [0, 4, 10])
def test_memory_is_kept_to(room):
    """A worker gets back as many as it has room for; the other one none, for it sets the largest cost."""
    worker = np.repeat(np.arange(2, dtype=np.int32), 10)
    pairs = HaloPairs(2, worker, np.arange(20), 1 - worker, np.ones(20, np.int64), np.tile(np.arange(1.0, 11), 2))
    cost = LinearCost(np.array([1.0, 100.0]), np.ones(2), np.zeros(2), np.zeros(2))

    def fits(rank, loads):
        return loads.remote_edges[rank] <= room

    kept = restore(pairs, cost, fits, np.zeros(20, bool))
    assert np.flatnonzero(kept).tolist() == list(range(10 - room, 10))
