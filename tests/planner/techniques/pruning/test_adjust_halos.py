"""Halos are pruned as algorithms 2 and 3 say, the least influence first, and no more than balance needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.techniques.pruning.adjust_halos import EPSILON, adjust_halos
from gnnplan.planner.techniques.pruning.pairs import HaloPairs
from tests.planner.techniques.pruning.cases import always_fits, linear_cases


def step_by_step(pairs, cost):
    """Algorithms 2 and 3 as printed, a vertex at a time, but for the look before the first pass."""
    kept = pairs.everything
    while (lam := cost(pairs.loads(kept))).std() >= EPSILON * lam.mean():
        is_unchanged = True
        for worker in sorted(range(pairs.num_workers), key=lambda w: -lam[w]):
            now = cost(pairs.loads(kept))
            mean = now.mean()
            if now[worker] <= mean:
                continue
            own = [k for k in range(len(kept)) if kept[k] and pairs.worker[k] == worker]
            for k in sorted(own, key=lambda k: pairs.influence[k]):
                if cost(pairs.loads(kept))[worker] <= mean:
                    break
                kept[k], is_unchanged = False, False
                if cost(pairs.loads(kept))[worker] <= (now[worker] + mean) / 2:
                    break
        if is_unchanged:
            break
    return kept


@settings(deadline=None)
@given(linear_cases(max_pairs=14))
def test_halving_finds_what_the_papers_loop_finds(case):
    """The same pairs as pruning one vertex after the other."""
    pairs, cost = case
    np.testing.assert_array_equal(adjust_halos(pairs, cost, always_fits), step_by_step(pairs, cost))


@settings(deadline=None)
@given(linear_cases(max_pairs=14))
def test_the_least_influence_goes_first_and_no_cost_rises(case):
    """Per worker all that is pruned ranks below all that is kept."""
    pairs, cost = case
    kept = adjust_halos(pairs, cost, always_fits)
    assert (cost(pairs.loads(kept)) <= cost(pairs.loads(pairs.everything)) + 1e-12).all()
    for worker in range(pairs.num_workers):
        own = pairs.worker == worker
        assert pairs.influence[own & ~kept].max(initial=0) <= pairs.influence[own & kept].min(initial=np.inf)


def many_pairs(num_pairs=4000):
    """Two workers with halos of many vertices of one edge each, influence rising."""
    worker = np.repeat(np.arange(2, dtype=np.int32), num_pairs)
    ones = np.ones(2 * num_pairs, np.int64)
    return HaloPairs(2, worker, np.arange(2 * num_pairs), 1 - worker, ones, np.tile(np.arange(1.0, num_pairs + 1), 2))


def cost_of(fixed, per_edge):
    """Of entries alone."""
    return LinearCost(np.array(fixed), np.array(per_edge), np.zeros(2), np.zeros(2))


def test_the_slow_device_prunes_until_both_cost_alike():
    """Nothing is taken from the fast one, and no more from the slow one than it needs."""
    pairs, cost = many_pairs(), cost_of([100.0, 100.0], [0.01, 0.03])
    kept = adjust_halos(pairs, cost, always_fits)
    costs = cost(pairs.loads(kept))
    assert costs.std() < EPSILON * costs.mean()
    assert kept[:4000].all()
    assert costs[1] >= costs[0]


def test_balanced_halos_are_left_alone():
    """Within epsilon there is nothing to gain that is worth an edge."""
    pairs = many_pairs()
    assert adjust_halos(pairs, cost_of([100.0, 101.0], [0.01, 0.01]), always_fits).all()


@pytest.mark.parametrize("fixed", [(86.0, 100.0), (100.0, 500.0)])
def test_memory_is_a_reason_to_prune(fixed):
    """Also for a worker that is not above the mean; as much as it takes, past what balance takes."""
    pairs = many_pairs()

    def fits(worker, loads):
        return worker == 1 or loads.remote_edges[0] <= 1500

    kept = adjust_halos(pairs, cost_of(fixed, [0.01, 0.0]), fits)
    assert kept[:4000].sum() == 1500
    assert not kept[:2500].any()


def test_where_balance_is_out_of_reach_all_is_tried_and_it_ends():
    """The paper's limit: a worker that is late without its halo stays late."""
    kept = adjust_halos(many_pairs(), cost_of([100.0, 900.0], [0.01, 0.01]), always_fits)
    assert kept[:4000].all()
    assert not kept[4000:].any()


@settings(deadline=None)
@given(st.integers(2, 4))
def test_no_halo_no_change(size):
    """Uneven costs without a halo end at once."""
    empty = np.empty(0, np.int32)
    pairs = HaloPairs(size, empty, empty, empty, empty, np.empty(0))
    cost = LinearCost(np.arange(1.0, size + 1), *[np.zeros(size)] * 3)
    assert len(adjust_halos(pairs, cost, always_fits)) == 0
