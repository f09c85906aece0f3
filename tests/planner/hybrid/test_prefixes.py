"""Prefixes: what pays, the paper's shares, and one price per byte with its guarantee and its bound."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from gnnplan.planner.hybrid.dependencies import Charge, Dependencies
from gnnplan.planner.hybrid.prefixes import bound_s, budget_shares, critical_price, one_price, paying
from gnnplan.planner.hybrid.ranking import rank
from tests.planner.hybrid.test_ranking import ANY_RATES, NO_LIMIT, NONE, dependency_lists, rates

SHARES = st.floats(0, 1)


def within(dependencies, share):
    """A budget of this share of what everything takes."""
    return int(share * dependencies.alone.num_bytes.sum())


def benefits_s(dependencies, at):
    return dependencies.communicated_s(at) - dependencies.alone.seconds(at)


def knapsack_s(dependencies, at, budget_bytes):
    """The most that any set within the budget saves (HiGHS)."""
    benefit_s = np.where(dependencies.row_width > 0, benefits_s(dependencies, at), 0)
    if not len(benefit_s):
        return 0.0
    done = milp(
        -benefit_s,
        integrality=np.ones(len(benefit_s)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(dependencies.alone.num_bytes[None], -np.inf, budget_bytes),
        options={"mip_rel_gap": 0.0},
    )
    return -done.fun


@settings(max_examples=100, deadline=None)
@given(dependency_lists(), ANY_RATES, ANY_RATES, st.floats(0.1, 10), st.booleans())
def test_what_pays_is_a_prefix_in_any_weather(dependencies, sorted_at, now, speed, by_size):
    """Whatever T_c has become, as long as T_v and T_e move in proportion."""
    now = rates(sorted_at.vertex_s * speed, sorted_at.edge_s * speed, now.row_s)
    ranking = rank(dependencies, dependencies.alone, sorted_at, NO_LIMIT, by_size=by_size)
    chosen = ranking.chosen(paying(ranking, now))
    benefit_s = np.where(dependencies.row_width > 0, benefits_s(dependencies, now), 0)
    scale_s = np.where(dependencies.row_width > 0, dependencies.communicated_s(now), 0)
    tied = np.abs(benefit_s) <= 1e-6 + 1e-9 * scale_s
    assume(not (tied & (scale_s > 0)).any())  # not decided by rounding
    assert sorted(chosen.tolist()) == np.flatnonzero(benefit_s > 0).tolist()


@settings(max_examples=100, deadline=None)
@given(dependency_lists(), ANY_RATES, ANY_RATES, SHARES)
def test_nothing_is_chosen_that_costs_more_than_it_saves(dependencies, sorted_at, now, share):
    """Even if T_v and T_e have moved out of proportion; and the budget is kept."""
    budget_bytes = within(dependencies, share)
    ranking = rank(dependencies, dependencies.alone, sorted_at, budget_bytes)
    for choose in (one_price, budget_shares):
        counts = choose(ranking, now, budget_bytes)
        assert ranking.num_bytes(counts) <= budget_bytes
        assert (benefits_s(dependencies, now)[ranking.chosen(counts)] >= -1e-9).all()


@settings(max_examples=150, deadline=None)
@given(dependency_lists(), ANY_RATES, ANY_RATES, SHARES)
def test_one_price_saves_its_share_of_the_optimum(dependencies, sorted_at, now, share):
    """At least 1 / (2 * 2^(1/4)) of the best knapsack, at any T_c."""
    budget_bytes = within(dependencies, share)
    now = sorted_at.model_copy(update={"row_s": now.row_s})
    ranking = rank(dependencies, dependencies.alone, sorted_at, budget_bytes)
    saved_s = ranking.saved_s(now, one_price(ranking, now, budget_bytes))
    best_s = knapsack_s(dependencies, now, budget_bytes)
    assert best_s / (2 * 2**0.25) - 1e-6 <= saved_s <= best_s * (1 + 1e-6) + 1e-6


@settings(max_examples=150, deadline=None)
@given(dependency_lists(), ANY_RATES, ANY_RATES, SHARES)
def test_no_knapsack_is_above_the_bound(dependencies, sorted_at, now, share):
    """At any rates."""
    budget_bytes = within(dependencies, share)
    ranking = rank(dependencies, dependencies.alone, sorted_at, budget_bytes)
    best_s = knapsack_s(dependencies, now, budget_bytes)
    assert best_s <= bound_s(ranking, now, budget_bytes) * (1 + 1e-9) + 1e-6


@settings(max_examples=100, deadline=None)
@given(dependency_lists(), ANY_RATES, SHARES)
def test_the_critical_price_parts_what_fits_from_what_does_not(dependencies, at, share):
    """Where all that pays does not fit."""
    ranking = rank(dependencies, dependencies.alone, at, NO_LIMIT)
    needed = ranking.num_bytes(paying(ranking, at))
    budget_bytes = min(share * needed, needed - 1)
    assume(needed > 0)
    low, high = critical_price(ranking, at, budget_bytes)
    assert low < high
    assert ranking.num_bytes(paying(ranking, at, high)) <= budget_bytes
    assert ranking.num_bytes(paying(ranking, at, low)) > budget_bytes


def dependencies_of(*rows):
    """Rows of (owner, seconds of computing, bytes), with one float to save each."""
    owner, cost, num_bytes = (np.array(column, np.float64) for column in zip(*rows))
    charge = Charge(cost, np.zeros_like(cost), num_bytes)
    owner = owner.astype(np.int32)
    return Dependencies(np.zeros_like(owner), owner, np.ones_like(cost), charge, charge)


def test_a_bare_prefix_can_be_arbitrarily_bad():
    """A small dense dependency keeps a large one out, which alone is worth 50 times as much."""
    dependencies = dependencies_of((0, 98, 1), (0, 0, 100))
    ranking = rank(dependencies, dependencies.alone, rates(), 100)
    counts = one_price(ranking, rates(), 100)
    assert ranking.chosen(counts).tolist() == [1]
    assert ranking.saved_s(rates(), counts) == 100


def test_the_bound_counts_those_that_a_size_class_leaves_open():
    """Of 16 and 19 bytes in one class, equally good, five of the small ones fill the budget: the bound is just that."""
    dependencies = dependencies_of(*[(0, 99, 16)] * 10, *[(0, 99, 19)] * 10)
    ranking = rank(dependencies, dependencies.alone, rates(), 80)
    assert ranking.num_groups == 1
    assert bound_s(ranking, rates(), 80) == pytest.approx(5, rel=1e-4)


def test_shares_are_in_proportion_to_demand():
    """Owners that ask for 300 and 100 bytes get 3/4 and 1/4 of 200, and take the cheapest that fit."""
    dependencies = dependencies_of((0, 1, 100), (0, 3, 100), (0, 2, 100), (1, 1, 50), (1, 9, 50))
    ranking = rank(dependencies, dependencies.alone, rates(), 200, by_size=False)
    assert ranking.chosen(budget_shares(ranking, rates(), 200)).tolist() == [0, 3]
    assert ranking.chosen(budget_shares(ranking, rates(), 400)).tolist() == [0, 2, 1, 3, 4]


def test_one_price_gives_the_bytes_to_the_owner_they_serve_most():
    """Shares in proportion to demand do not: they save 20% less here."""
    dependencies = dependencies_of(*[(0, 90, 10)] * 10, *[(1, 10, 10)] * 10)
    ranking = rank(dependencies, dependencies.alone, rates(), 100)
    counts = one_price(ranking, rates(), 100)
    assert ranking.saved_s(rates(), counts) == 10 * 90
    assert ranking.saved_s(rates(), budget_shares(ranking, rates(), 100)) == 5 * 90 + 5 * 10


@pytest.mark.parametrize("choose", [one_price, budget_shares])
def test_nothing_to_choose_from(choose):
    """A worker without a halo."""
    ranking = rank(NONE, NONE.alone, rates(), 10)
    assert choose(ranking, rates(), 10).tolist() == []
