"""The bound is the linear programme's; minimum cuts are optimal closed sets (HiGHS is the oracle)."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from gnnplan.planner.hybrid.closure import build_closure
from gnnplan.planner.hybrid.lagrangian import best_closed_set, relax
from tests.planner.hybrid.workers import problems

SCALE_S = 1e-3  # HiGHS' tolerances are absolute


def best_by_highs(closure, budget_bytes, *, integral):
    """Most seconds saved by a closed set within the budget, or by its linear relaxation."""
    size = len(closure.gain_s)
    if not size:
        return 0.0
    tails = np.repeat(np.arange(size), np.diff(closure.starts))
    arcs = np.arange(len(tails))
    shape = (len(tails), size)
    needs = sp.csr_matrix((np.ones(len(tails)), (arcs, tails)), shape)
    needs -= sp.csr_matrix((np.ones(len(tails)), (arcs, closure.requires)), shape)
    constraints = [LinearConstraint(closure.num_bytes[None], -np.inf, budget_bytes)]
    if len(tails):
        constraints.append(LinearConstraint(needs, -np.inf, 0))
    done = milp(
        -closure.gain_s / SCALE_S,
        integrality=np.full(size, int(integral)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0.0},
    )
    assert done.success, done.message
    return -done.fun * SCALE_S


def closure_of(problem):
    worker, rates, budget_bytes = problem
    return build_closure(worker.near, worker.levels, worker.dependencies, rates), budget_bytes


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_bound_is_the_linear_programme(problem):
    """Closure constraints are totally unimodular, so the least dual is the linear programme's optimum, to 1e-6."""
    closure, budget_bytes = closure_of(problem)
    relaxed = relax(closure, budget_bytes)
    best_s = best_by_highs(closure, budget_bytes, integral=False)
    assert best_s * (1 - 1e-6) - 1e-9 <= relaxed.bound_s <= best_s * (1 + 2e-6) + 1e-9
    assert relaxed.held.num_bytes <= budget_bytes
    assert relaxed.held.saved_s <= relaxed.bound_s


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_set_it_keeps_is_closed(problem):
    """Whatever is held has all it requires."""
    closure, budget_bytes = closure_of(problem)
    held = relax(closure, budget_bytes).held.is_held
    tails = np.repeat(np.arange(len(held)), np.diff(closure.starts))
    assert held[closure.requires[held[tails]]].all()


@settings(max_examples=100, deadline=None)
@given(problems(), st.sampled_from([0.0, 1e-8, 1e-6]))
def test_a_cut_is_the_best_closed_set_at_its_price(problem, price_s):
    """Its gain after the price is the value, and integer programming finds none better."""
    closure, _ = closure_of(problem)
    held, value_s = best_closed_set(closure, price_s)
    assert held.saved_s - price_s * held.num_bytes == pytest.approx(value_s, rel=1e-9, abs=1e-15)
    priced = type(closure)(
        closure.num_dependencies,
        closure.gain_s - price_s * closure.num_bytes,
        closure.num_bytes,
        closure.starts,
        closure.requires,
    )
    assert value_s == pytest.approx(best_by_highs(priced, np.inf, integral=True), rel=1e-6, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_with_room_for_everything_one_cut_is_the_optimum(problem):
    """The bound is reached."""
    closure, _ = closure_of(problem)
    relaxed = relax(closure, float(closure.num_bytes.sum()))
    assert relaxed.num_cuts == 1
    assert relaxed.held.saved_s == pytest.approx(relaxed.bound_s, rel=1e-9, abs=1e-15)
