"""Online adjustment under changing rates: within budget, at least as good as communicating all, under its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.adjust import Adjuster
from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.dependencies import Rates
from tests.planner.hybrid.test_lagrangian import best_by_highs
from tests.planner.hybrid.workers import RATES, problems


@settings(max_examples=150, deadline=None)
@given(problems(), st.lists(RATES, min_size=1, max_size=4))
def test_in_any_weather_it_keeps_the_budget_and_its_promises(problem, weather):
    """What it says is saved is saved at least, and no choice saves more than the bound, overlaps counted."""
    worker, sorted_at, budget_bytes = problem
    adjuster = Adjuster(worker.dependencies, budget_bytes, sorted_at)
    for rates in weather:
        adjustment = adjuster.adjust(rates)
        closure = build_closure(worker.near, worker.levels, worker.dependencies, rates)
        held = Held.of(closure, adjustment.cached())
        assert held.num_bytes <= adjustment.num_bytes <= budget_bytes
        assert 0 <= adjustment.saved_s <= held.saved_s + 1e-12
        assert best_by_highs(closure, budget_bytes, integral=True) <= adjustment.bound_s + 1e-9
        assert 0 <= adjustment.gap <= 1
        assert adjustment.num_cached == len(adjustment.cached())


@settings(max_examples=50, deadline=None)
@given(problems(), RATES)
def test_sorted_again_it_is_as_if_sorted_then(problem, now):
    """Nothing of the weather before is left."""
    worker, sorted_at, budget_bytes = problem
    adjustment = Adjuster(worker.dependencies, budget_bytes, sorted_at).adjust(now)
    if adjustment.sorted_again:
        fresh = Adjuster(worker.dependencies, budget_bytes, now).adjust(now)
        assert (adjustment.saved_s, adjustment.bound_s) == (fresh.saved_s, fresh.bound_s)
        np.testing.assert_array_equal(adjustment.cached(), fresh.cached())


def sort_count(adjuster, *weather):
    return sum(adjuster.adjust(rates).sorted_again for rates in weather)


@settings(max_examples=20, deadline=None)
@given(problems())
def test_it_sorts_again_only_where_computing_moves_out_of_proportion(problem):
    """A slower device or link needs no sort; a matrix product slower by half does, once."""
    worker, _, budget_bytes = problem
    base, link = (Rates(vertex_s=1e-6, edge_s=1e-6, row_s=(seconds,) * 3) for seconds in (1e-6, 1e-3))
    slower, product = (
        base.model_copy(update=more) for more in ({"vertex_s": 3e-6, "edge_s": 3e-6}, {"vertex_s": 2e-6})
    )
    adjuster = Adjuster(worker.dependencies, budget_bytes, base)
    assert sort_count(adjuster, base, link, slower) == 0
    assert sort_count(adjuster, product, product) == 1


@settings(max_examples=20, deadline=None)
@given(problems())
def test_with_free_computing_and_room_everything_that_travels_is_cached(problem):
    """And with a free network nothing is."""
    worker, sorted_at, _ = problem
    adjuster = Adjuster(worker.dependencies, float(worker.dependencies.alone.num_bytes.sum()), sorted_at)
    free = adjuster.adjust(Rates(vertex_s=0, edge_s=0, row_s=(1e-6,) * 3))
    assert free.num_cached == len(worker.dependencies)
    assert free.gap == pytest.approx(0, abs=1e-9)
    assert adjuster.adjust(Rates(vertex_s=1e-6, edge_s=1e-6, row_s=(0.0,) * 3)).num_cached == 0


@settings(max_examples=20, deadline=None)
@given(problems())
def test_it_prints_its_gap(problem):
    """In one line."""
    worker, rates, budget_bytes = problem
    line = str(Adjuster(worker.dependencies, budget_bytes, rates).adjust(rates))
    assert "(gap " in line
    assert "\n" not in line
