"""The planner's decision: within budget, never worse than the simple ones, and never above its bound."""

import pytest
from hypothesis import given, settings

from gnnplan.planner.hybrid.adjust import Adjuster
from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.decide import decide
from tests.planner.hybrid.test_lagrangian import best_by_highs
from tests.planner.hybrid.workers import problems


def decision_of(problem):
    worker, rates, budget_bytes = problem
    return decide(worker.near, worker.levels, worker.dependencies, rates, budget_bytes)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_it_lies_between_communicating_all_and_the_optimum_and_the_optimum_under_the_bound(problem):
    """The budget is kept, the gap is not negative; integer programming gives the optimum."""
    worker, rates, budget_bytes = problem
    decision = decision_of(problem)
    assert decision.num_bytes <= budget_bytes
    assert 0 <= decision.gap <= 1
    closure = build_closure(worker.near, worker.levels, worker.dependencies, rates)
    best_s = best_by_highs(closure, budget_bytes, integral=True)
    assert 0 <= decision.saved_s <= best_s + 1e-9
    assert best_s <= decision.bound_s + 1e-9
    assert decision.saved_s <= decision.communicated_s * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_it_costs_what_it_says(problem):
    """Seconds and bytes of the dependencies cached, counted anew."""
    worker, rates, _ = problem
    decision = decision_of(problem)
    closure = build_closure(worker.near, worker.levels, worker.dependencies, rates)
    held = Held.of(closure, decision.cached.nonzero()[0])
    assert held.saved_s == pytest.approx(decision.saved_s, abs=1e-15)
    assert held.num_bytes == decision.num_bytes


@settings(max_examples=100, deadline=None)
@given(problems())
def test_it_is_no_worse_than_the_online_choice(problem):
    """Which charges every dependency as if it were alone."""
    worker, rates, budget_bytes = problem
    online = Adjuster(worker.dependencies, budget_bytes, rates).adjust(rates)
    assert decision_of(problem).saved_s >= online.saved_s - 1e-12


@settings(max_examples=50, deadline=None)
@given(problems())
def test_with_room_for_everything_it_is_optimal(problem):
    """A minimum cut is then exact."""
    worker, rates, _ = problem
    everything = float(worker.dependencies.alone.num_bytes.sum())
    assert decision_of((worker, rates, everything)).gap <= 1e-9


@settings(max_examples=20, deadline=None)
@given(problems())
def test_it_prints_its_gap(problem):
    """In one line."""
    line = str(decision_of(problem))
    assert "(gap " in line
    assert "\n" not in line
