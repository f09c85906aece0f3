"""The optimum by CP-SAT: never above the heuristic, and what trying every choice finds."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.oracles.best_pruning import heuristic_gap, least_influence, least_max_cost
from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.techniques.pruning.adjust_halos import adjust_halos
from gnnplan.planner.techniques.pruning.pairs import HaloPairs
from tests.planner.techniques.pruning.cases import always_fits, linear_cases


def max_cost(pairs, cost, kept):
    """Of the busiest worker."""
    return cost(pairs.loads(kept)).max()


@settings(deadline=None, max_examples=60)
@given(linear_cases(max_pairs=12))
def test_the_optimum_is_never_above_the_heuristic(case):
    """Under the influence that the heuristic pruned, which the optimum does not exceed; and above its own bound."""
    pairs, cost = case
    kept = adjust_halos(pairs, cost, always_fits)
    exact = least_max_cost(pairs, cost, kept)
    assert exact.value == max_cost(pairs, cost, exact.kept) <= max_cost(pairs, cost, kept)
    assert pairs.influence[~exact.kept].sum() <= pairs.influence[~kept].sum() + 1e-5
    assert exact.bound == pytest.approx(exact.value, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(linear_cases(max_pairs=7))
def test_the_optimum_is_the_best_of_all_choices(case):
    """Tried one by one."""
    pairs, cost = case
    kept = adjust_halos(pairs, cost, always_fits)
    budget = pairs.influence[~kept].sum() * (1 + 1e-9)
    choices = (np.array(choice, bool) for choice in product([True, False], repeat=len(kept)))
    best = min(max_cost(pairs, cost, choice) for choice in choices if pairs.influence[~choice].sum() <= budget)
    assert least_max_cost(pairs, cost, kept).value == pytest.approx(best, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(linear_cases(max_pairs=7))
def test_the_least_influence_is_that_of_all_choices_that_cost_no_more(case):
    """Tried one by one; never above what the heuristic prunes for the same largest cost."""
    pairs, cost = case
    kept = adjust_halos(pairs, cost, always_fits)
    exact, highest = least_influence(pairs, cost, kept), max_cost(pairs, cost, kept)
    assert exact.value == pairs.influence[~exact.kept].sum() <= pairs.influence[~kept].sum()
    assert max_cost(pairs, cost, exact.kept) <= highest + 1e-4
    choices = [np.array(choice, bool) for choice in product([True, False], repeat=len(kept))]
    least, least_within_rounding = (
        min(pairs.influence[~c].sum() for c in choices if max_cost(pairs, cost, c) <= highest + slack)
        for slack in (1e-9, 1e-4)
    )
    assert least_within_rounding - 1e-5 <= exact.value <= least + 1e-5
    assert exact.bound == pytest.approx(exact.value, abs=1e-5)


def test_pruning_that_lowers_no_maximum_is_seen():
    """Worker 1, above the mean, prunes while worker 2, late without a halo, sets the largest cost: it is given back."""
    worker = np.repeat(np.arange(3, dtype=np.int32), [10, 10, 0])
    pairs = HaloPairs(3, worker, np.arange(20), (worker + 1) % 3, np.ones(20, np.int64), np.tile(np.arange(1.0, 11), 2))
    cost = LinearCost(np.array([10.0, 60.0, 100.0]), np.ones(3), np.zeros(3), np.zeros(3))
    gap = heuristic_gap(pairs, cost)
    assert gap.gap == pytest.approx(0)
    assert gap.paper_influence > 0 == gap.heuristic_influence == gap.least_influence


@settings(deadline=None, max_examples=20)
@given(linear_cases(max_pairs=12))
def test_the_gap_tells_the_heuristic_from_the_optimum(case):
    """Bound, optimum, heuristic and unpruned in that order."""
    gap = heuristic_gap(*case)
    slack = 1 + 1e-9
    assert gap.bound <= gap.optimal_max_cost * slack
    assert gap.optimal_max_cost <= gap.heuristic_max_cost * slack
    assert gap.heuristic_max_cost <= gap.unpruned_max_cost * slack
    assert gap.gap == pytest.approx(gap.heuristic_max_cost / gap.optimal_max_cost - 1)
    assert (
        0 <= gap.least_influence_bound <= gap.least_influence <= gap.heuristic_influence <= gap.paper_influence <= slack
    )
