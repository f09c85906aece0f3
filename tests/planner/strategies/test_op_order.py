"""The orders a layer may take are the exact ones, within the job's pins."""

from itertools import product

import pytest

from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.op_order import layer_options

MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]


def options(layer=0, *, kind="gcn", sparse=False, input_dropout=0.0, **pin):
    """The options of one layer of a three-layer job."""
    model = ModelSpec(kind=kind, num_layers=3, input_dropout=input_dropout)
    job = Job(graph=SbmGraph(source="sbm"), model=model, pin=PinnedDecisions(**pin))
    return layer_options(job, layer, sparse_features=sparse)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn"])
def test_the_first_layer_has_all_three_orders(kind):
    """Multiply first, aggregate first, or aggregate once before training."""
    assert set(options(kind=kind)) == {MULTIPLY, ONCE, AGGREGATE}


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn"])
@pytest.mark.parametrize("layer", [1, 2])
def test_later_layers_never_precompute(kind, layer):
    """Hidden activations change in every epoch."""
    assert set(options(layer, kind=kind)) == {MULTIPLY, AGGREGATE}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("precompute", [None, False])
def test_gat_multiplies_first(layer, sparse, precompute):
    """Attention scores transformed rows, so there is nothing to aggregate before."""
    assert options(layer, kind="gat", sparse=sparse, precompute=precompute) == (MULTIPLY,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("precompute", [None, False, True])
def test_input_dropout_rules_out_precompute(kind, sparse, precompute):
    """Features that are dropped anew in every epoch cannot be aggregated once."""
    assert not any(option.precompute for option in options(kind=kind, sparse=sparse, input_dropout=0.5,
                                                           precompute=precompute))  # fmt: skip


def test_sparse_features_are_aggregated_once_or_not_at_all():
    """Each epoch anew would be a sparse-sparse product; hidden layers are dense anyway."""
    assert set(options(sparse=True)) == {MULTIPLY, ONCE}
    assert set(options(1, sparse=True)) == {MULTIPLY, AGGREGATE}


def test_pinned_order_is_the_only_one():
    """A pin leaves the orders it names, with and without precompute where both are open."""
    assert options(op_order="multiply_first") == (MULTIPLY,)
    assert set(options(op_order="aggregate_first")) == {ONCE, AGGREGATE}
    assert options(1, op_order="aggregate_first") == (AGGREGATE,)


def test_pinned_precompute_holds_for_the_first_layer_alone():
    """Later layers stay free, since they cannot precompute."""
    assert options(precompute=True) == (ONCE,)
    assert set(options(precompute=False)) == {MULTIPLY, AGGREGATE}
    assert set(options(1, precompute=True)) == {MULTIPLY, AGGREGATE}


def test_without_pins_there_is_always_an_option():
    """No model, layer, format or dropout leaves a layer without an order."""
    for kind, layer, sparse, dropout in product(KINDS, (0, 1), (False, True), (0.0, 0.5)):
        assert MULTIPLY in options(layer, kind=kind, sparse=sparse, input_dropout=dropout)


def test_pins_only_take_options_away():
    """Whatever is pinned, only exact orders remain, each of them as pinned."""
    orders, truth = [None, "multiply_first", "aggregate_first"], [None, False, True]
    for kind, layer, sparse, dropout, order, once in product(KINDS, (0, 1), (False, True), (0.0, 0.5), orders, truth):
        free = options(layer, kind=kind, sparse=sparse, input_dropout=dropout)
        kept = options(layer, kind=kind, sparse=sparse, input_dropout=dropout, op_order=order, precompute=once)
        wanted = {
            option
            for option in free
            if order in (None, option.op_order) and (layer > 0 or once in (None, option.precompute))
        }
        assert set(kept) == wanted
        assert len(kept) == len(wanted)


@pytest.mark.parametrize(
    ("model", "sparse", "pin"),
    [
        ({"kind": "gat"}, False, {"op_order": "aggregate_first"}),
        ({"kind": "gat"}, False, {"precompute": True}),
        ({"input_dropout": 0.1}, False, {"precompute": True}),
        ({}, False, {"op_order": "multiply_first", "precompute": True}),
        ({}, True, {"op_order": "aggregate_first", "precompute": False}),
    ],
)
def test_pins_that_cannot_be_exact_leave_nothing(model, sparse, pin):
    """A pin is never dropped in silence: the first layer has no option, and planning says so."""
    assert options(sparse=sparse, **model, **pin) == ()
