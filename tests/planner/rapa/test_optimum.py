"""The optimum by CP-SAT: never above the heuristic, and what trying every choice finds."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from planner.rapa.adjust_halos import adjust_halos
from planner.rapa.optimum import heuristic_gap, least_max_cost
from tests.planner.rapa.cases import always_fits, linear_cases


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
    assert exact.max_cost == max_cost(pairs, cost, exact.kept) <= max_cost(pairs, cost, kept)
    assert pairs.influence[~exact.kept].sum() <= pairs.influence[~kept].sum() + 1e-5
    assert exact.bound == pytest.approx(exact.max_cost, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(linear_cases(max_pairs=7))
def test_the_optimum_is_the_best_of_all_choices(case):
    """Tried one by one."""
    pairs, cost = case
    kept = adjust_halos(pairs, cost, always_fits)
    budget = pairs.influence[~kept].sum() * (1 + 1e-9)
    choices = (np.array(choice, bool) for choice in product([True, False], repeat=len(kept)))
    best = min(max_cost(pairs, cost, choice) for choice in choices if pairs.influence[~choice].sum() <= budget)
    assert least_max_cost(pairs, cost, kept).max_cost == pytest.approx(best, rel=1e-4)


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
