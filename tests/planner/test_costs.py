"""Operators cost nothing where there is nothing to do, and never less where there is more."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.costs import ZERO, OperatorCosts, backward_cost, forward_cost, input_entries, total
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.over_edges import GAT_HEADS

COST = OperatorCosts.of(catalog_profile("rtx-3090"))
MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
EMPTY = WorkerShape(
    num_local=0, num_halo=0, num_sent=0, local_edges=0, remote_edges=0, num_train=0, hop_entries=(0, 0, 0, 0)
)
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]


def shape_of(rows, degree=8, halo=0.2):
    """A share with `rows` vertices; a part of its edges comes from a halo."""
    return WorkerShape(
        num_local=rows,
        num_halo=int(rows * halo),
        num_sent=int(rows * halo),
        local_edges=rows * degree,
        remote_edges=int(rows * degree * halo),
        num_train=rows // 2,
        hop_entries=tuple(rows * 16 * (k + 1) for k in range(4)),
    )


def steps_of(kind, order=MULTIPLY, hidden=64, *, features=64, sparse=False, dropout=0.0):
    """The steps of a two-layer model."""
    model = ModelSpec(kind=kind, hidden_channels=hidden, dropout=dropout)
    orders = (order, AGGREGATE if order is ONCE else order)
    return build_program(model, orders, num_features=features, num_classes=8, sparse_input=sparse).steps


def every_step():
    """Steps of every kind, order and feature format the planner offers."""
    for kind in KINDS:
        for order in [MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE, ONCE]:
            for sparse in (False,) if order is AGGREGATE else (False, True):
                yield from steps_of(kind, order, sparse=sparse)
                yield from steps_of(kind, order, sparse=sparse, dropout=0.5)


def seconds(kind, rows, hidden, order=MULTIPLY, degree=8):
    """Forward plus backward seconds of all steps."""
    steps, shape = steps_of(kind, order, hidden), shape_of(rows, degree)
    costs = [cost for step in steps for cost in (forward_cost(step, shape, COST), backward_cost(step, shape, COST))]
    return sum(cost.seconds for cost in costs if cost is not None)


def test_no_rows_cost_nothing():
    """A worker without vertices spends no time in any step that scales with them."""
    for step in every_step():
        assert forward_cost(step, EMPTY, COST) == ZERO, step
        assert backward_cost(step, EMPTY, COST) in (None, ZERO), step


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (8, 8, 0)])
def test_an_operator_with_an_extent_of_zero_costs_nothing(shape):
    """Nothing to do takes no time and is no unprofiled shape."""
    assert COST("matmul_forward", *shape) == ZERO
    assert COST.spmm(*shape, 8) == COST.spmm_transposed(*shape, 8) == ZERO
    assert COST.copy(0) == ZERO


@pytest.mark.parametrize("operator", ["spmm", "spmm_transposed"])
def test_an_entry_takes_as_long_as_in_a_square_block_with_as_many_columns(operator):
    """Beside what a call takes anyway; the spread and the parts with it."""
    cost = getattr(COST, operator)
    square = COST(operator, 40_000, 20, 256)
    assert cost(40_000, 800_000, 256, 40_000) == square
    fixed_s = COST.curves[operator].fixed_s
    half = cost(20_000, 400_000, 256, 40_000)
    assert half.seconds == pytest.approx((square.seconds - fixed_s) / 2 + fixed_s)
    assert half.spread_s == pytest.approx(square.spread_s * half.seconds / square.seconds)
    assert half.parts == ((operator, pytest.approx(half.seconds)),)
    tall = cost(40_000, 800_000, 256, 512)  # a roofline knows no caches
    assert tall.seconds == pytest.approx(square.seconds, rel=0.05)


def test_every_step_costs_something_where_there_is_work():
    """No operator is forgotten: with rows and edges every step forward takes time."""
    for step in every_step():
        assert forward_cost(step, shape_of(1000), COST).seconds > 0, step


def test_only_constants_and_exchanges_have_no_backward():
    """The aggregation of what needs no gradient is skipped, every other step has a cost."""
    for step in every_step():
        has_none = backward_cost(step, shape_of(1000), COST) is None
        assert has_none == (step.op == "exchange" or (step.op == "aggregate" and step.constant)), step


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 200_000), st.integers(1, 200_000))
def test_more_rows_never_cost_less(kind, rows, more):
    """Seconds grow with the rows of a share."""
    assert seconds(kind, rows, 64) <= seconds(kind, rows + more, 64) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 100), st.integers(1, 100), st.integers(100, 100_000))
def test_wider_layers_never_cost_less(kind, width, more, rows):
    """Seconds grow with the hidden width (in whole heads for GAT)."""
    assert seconds(kind, rows, 4 * width) <= seconds(kind, rows, 4 * (width + more)) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 100), st.integers(1, 100))
def test_more_edges_never_cost_less(kind, degree, more):
    """Seconds grow with the edges a share gathers over."""
    assert seconds(kind, 5000, 64, degree=degree) <= seconds(kind, 5000, 64, degree=degree + more) * (1 + 1e-9)


def test_a_large_share_costs_much_more_than_a_small_one():
    """Growth is real, not a constant that passes as monotone."""
    for kind in KINDS:
        assert seconds(kind, 400_000, 256) > 3 * seconds(kind, 50_000, 256)


def test_constant_inputs_save_the_input_gradient():
    """The first product needs the gradient of its weight only."""
    first, later = (step for step in steps_of("gcn", hidden=64) if step.op == "multiply")
    shape = shape_of(50_000)
    weight = COST("matmul_grad_weight", shape.num_local, 64, 64)
    assert backward_cost(first, shape, COST) == weight
    both = [COST(f"matmul_grad_{what}", shape.num_local, 64, 8) for what in ("weight", "input")]
    assert backward_cost(later, shape, COST) == total(both)


def test_sparse_products_are_costed_by_stored_entries():
    """Hop k of the features has its own entries."""
    shape = shape_of(1000)
    (first, *_) = (step for step in steps_of("gcn", ONCE, sparse=True) if step.op == "multiply")
    assert input_entries(first, 0, shape) == shape.hop_entries[1]
    (both, *_) = (step for step in steps_of("sage", ONCE, sparse=True) if step.op == "combine")
    assert [input_entries(both, k, shape) for k in range(2)] == list(shape.hop_entries[:2])
    (plain, *_) = (step for step in steps_of("gcn", sparse=True) if step.op == "multiply")
    assert forward_cost(plain, shape, COST) == COST.spmm_features(1000, shape.hop_entries[0], 64)


@pytest.mark.parametrize("heads", [1, 4, 8])
def test_another_number_of_heads_than_was_measured_is_a_guess(heads):
    """Rows are priced as if they were as wide in four heads, which is marked; where there is nothing to do is none."""
    model = ModelSpec(kind="gat", hidden_channels=64, heads=heads)
    steps = build_program(model, (MULTIPLY, MULTIPLY), num_features=64, num_classes=8, sparse_input=False).steps
    (step, _) = (step for step in steps if step.op == "attend")
    for costs in (forward_cost, backward_cost):
        estimate = costs(step, shape_of(1000), COST)
        assert estimate.unprofiled == (heads != GAT_HEADS)
        of_four = costs(replace(step, heads=GAT_HEADS), shape_of(1000), COST)
        assert not of_four.unprofiled
        assert (estimate.seconds > of_four.seconds) == (heads > GAT_HEADS)  # of more scores
        assert costs(step, EMPTY, COST) == ZERO


def test_totals_add_seconds_and_spreads_and_remember_guesses():
    """One unprofiled part makes the whole unprofiled."""
    parts = [Estimate(1.0, 0.25, False), Estimate(2.0, 0.5, True)]
    assert total(parts) == Estimate(3.0, 0.75, True)
    assert total([]) == ZERO


def test_operator_that_was_not_profiled_is_a_user_error():
    """An old or partial profile is named, with what to do."""
    profile = COST.profile.model_copy(update={"operators": {}})
    with pytest.raises(UserError, match=r"rtx-3090: operator 'loss' was not profiled; profile again"):
        OperatorCosts.of(profile)("loss", 10, 2)


def test_rows_in_memory_of_the_host_are_gathered_or_copied():
    """A CPU gathers them where they are; a GPU's pass its bus, as pageable memory does; none cost nothing."""
    cpu = OperatorCosts.of(catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu"}))
    assert cpu.to_region(100, 8) == cpu.from_region(100, 8) == cpu("gather_rows", 100, 8)
    assert COST.to_region(100, 8) == COST("d2h_pageable", 3200)
    assert COST.from_region(100, 8) == COST("h2d_pageable", 3200)
    assert COST.to_region(0, 8) == COST.from_region(0, 8) == ZERO
