"""True costs, greedy growth, and that what a set holds is enough to compute with: any split gives the same numbers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import levels_of
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import LayerDecision
from tests.planner.hybrid.workers import RATES, budgets, problems, worker_of, workers

ANY_RATES = Rates(vertex_s=1.0, edge_s=1.0, row_s=(1.0, 1.0, 1.0))


def closure_of(worker, rates):
    return build_closure(worker.near, worker.levels, worker.dependencies, rates)


def subset(draw, size):
    return np.array(sorted(draw(st.sets(st.integers(0, size - 1)))) if size else [], np.int64)


def replicas_by_level(worker, held):
    """{level: places in the neighbourhood of all replicas held}."""
    near, first = worker.near, worker.levels.first
    found = {}
    for level in range(first, worker.levels.count):
        start = (level - first) * near.num_halo
        places = np.flatnonzero(held.is_held[start : start + near.num_halo])
        if level < worker.levels.count - 1:
            start = len(worker.dependencies) + (level - first) * near.num_beyond
            beyond = np.flatnonzero(held.is_held[start : start + near.num_beyond]) + near.num_halo
            places = np.concatenate([places, beyond])
        found[level] = places
    return found


def compute(worker, held, x, weights):
    """A worker's GCN from what it owns, holds and fetches; everything else is NaN and would spread."""
    truth = [x]
    for weight in weights:
        truth.append(np.maximum(worker.matrix @ truth[-1] @ weight, 0))
    held_at = replicas_by_level(worker, held)
    local, halo = worker.block.vertices, worker.block.halo
    rows = before = np.full_like(x, np.nan)
    rows[local] = x[local]
    for level, weight in enumerate(weights):
        computed = worker.near.vertices[held_at.get(level, np.empty(0, np.int64))]
        if level == 0:
            rows[computed] = x[computed]
        elif level == 1 and worker.levels.first == 1:
            rows[computed] = truth[1][computed]  # from the aggregated input, held from before training
        else:
            rows[computed] = np.maximum(worker.matrix[computed] @ before @ weights[level - 1], 0)
        fetched = np.setdiff1d(halo, computed)
        if level >= worker.levels.first:
            rows[fetched] = truth[level][fetched]
        before = rows
        rows = np.full((len(x), weight.shape[1]), np.nan)
        if level == 0 and worker.levels.first == 1:
            rows[local] = truth[1][local]
        else:
            rows[local] = np.maximum(worker.matrix[local] @ before @ weight, 0)
    return rows[local], truth[-1][local]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_split_gives_the_same_numbers(data):
    """Nothing but local rows, replicas held and rows communicated is needed for the exact result."""
    worker = data.draw(workers(kinds=("gcn",)))
    held = Held.of(closure_of(worker, ANY_RATES), subset(data.draw, len(worker.dependencies)))
    rng = np.random.default_rng(0)
    x = rng.random((worker.matrix.shape[0], 2))
    weights = [rng.standard_normal((2, 2)) for _ in range(worker.levels.count)]
    found, expected = compute(worker, held, x, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_set_holds_no_replica_in_vain(data):
    """Whatever is held beyond the halo is required by something held."""
    worker = data.draw(workers())
    closure = closure_of(worker, ANY_RATES)
    held = Held.of(closure, subset(data.draw, len(worker.dependencies))).is_held
    tails = np.repeat(np.arange(len(held)), np.diff(closure.starts))
    required = np.zeros(len(held), bool)
    required[closure.requires[held[tails]]] = True
    np.testing.assert_array_equal(held[len(worker.dependencies) :], required[len(worker.dependencies) :])


@settings(max_examples=150, deadline=None)
@given(problems(), st.data())
def test_greedy_keeps_the_budget_and_only_gains(problem, data):
    """From any set that keeps it, in any order; and it ends where nothing single is left to take."""
    worker, rates, budget_bytes = problem
    closure = closure_of(worker, rates)
    order = np.array(data.draw(st.permutations(range(len(worker.dependencies)))), np.int64)
    start = Held.of(closure, subset(data.draw, len(worker.dependencies)))
    if start.num_bytes > budget_bytes:
        start = Held.of(closure, order[:0])
    grown = start.grow(order, budget_bytes)
    assert grown.num_bytes <= budget_bytes
    assert grown.saved_s >= start.saved_s - 1e-15
    assert (grown.is_held >= start.is_held).all()
    for dependency in np.flatnonzero(~grown.cached):
        more = Held.of(closure, np.append(np.flatnonzero(grown.cached), dependency))
        assert more.num_bytes > budget_bytes or more.saved_s <= grown.saved_s + 1e-15


def test_greedy_takes_together_what_pays_together():
    """Two dependencies that gather the same three vertices: the second finds them there already."""
    # Local 0 gathers 1 and 2, which both gather 3, 4 and 5; every vertex has its self loop.
    sources, targets = [1, 2, 3, 4, 5, 3, 4, 5], [0, 0, 1, 1, 1, 2, 2, 2]
    matrix = aggregation_matrix(6, np.array([sources, targets]), "gcn")
    model = ModelSpec(kind="gcn", num_layers=2, hidden_channels=4)
    after = LayerDecision(op_order="aggregate_first")
    levels = levels_of(model, (after, after), num_features=4, num_classes=2)
    worker = worker_of(matrix, np.array([0, 1, 1, 1, 1, 1], np.int32), levels)
    rates = Rates(vertex_s=0.0, edge_s=1.0, row_s=(0.0, 100.0, 0.0))
    closure = closure_of(worker, rates)
    first, second = 2, 3  # level 1 of vertices 1 and 2
    row, entries = 4 * 4, 4 * 8
    lone_bytes = row + entries + 3 * row
    assert worker.dependencies.alone.num_bytes[[first, second]].tolist() == [lone_bytes] * 2
    together = Held.of(closure, np.array([first, second]))
    assert together.num_bytes == 2 * lone_bytes - 3 * row
    grown = Held.of(closure, np.empty(0, np.int64)).grow(np.array([first, second]), together.num_bytes)
    assert grown.cached.tolist() == [False, False, True, True]
    assert worker.dependencies.shared.num_bytes[first] == row + entries + 3 * row / 2


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_an_empty_set_holds_nothing(data):
    """And saves nothing."""
    worker = data.draw(workers())
    budget_bytes = data.draw(budgets(worker))
    held = Held.of(closure_of(worker, data.draw(RATES)), np.empty(0, np.int64))
    assert (held.saved_s, held.num_bytes) == (0.0, 0.0)
    assert held.grow(np.empty(0, np.int64), budget_bytes).num_bytes == 0.0
