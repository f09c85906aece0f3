"""Sparse input features give the numbers of dense ones, wherever their rows travel or are aggregated."""

import numpy as np
import pytest
import torch

from gnnplan.planner.program.labels import Label
from tests.planner.program.cases import EXACT, MODELS, NUM_FEATURES, ORDERS, Case, codes, exact, small_graph, subset

LINEAR = ["gcn", "sage", "gin", "tagcn"]
PLAYED = [
    *((name, "multiplied") for name in MODELS),
    *((name, order) for name in LINEAR for order in ("aggregated", "mixed")),
]
HOISTED = {"plain": (), "features": ("features",), "once": ("once",), "all": ("split", "once", "storage", "overlap")}


def case_of(name: str, order: str, passes: str, num_workers: int = 3, input_dropout: float = 0.0) -> Case:
    model = MODELS[name].model_copy(update={"input_dropout": input_dropout})
    chosen = {Label.MADE: subset(model, num_workers, 5), Label.KEPT: subset(model, num_workers, 6)}
    table = codes(model, num_workers, chosen)
    return Case(model, num_workers, ORDERS[order], table, HOISTED[passes], sparse=True)


@pytest.mark.parametrize("passes", HOISTED)
@pytest.mark.parametrize(("name", "order"), PLAYED)
def test_equals_dense_features(name, order, passes):
    """With a product, or an aggregation done once, as the first that meets them."""
    case = case_of(name, order, passes)
    assert case.play().off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("order", ["multiplied", "aggregated"])
@pytest.mark.parametrize("name", LINEAR)
def test_one_worker_equals_dense_features(name, order):
    """Without anything that travels."""
    for passes in HOISTED:
        case = Case(MODELS[name], 1, ORDERS[order], passes=HOISTED[passes], sparse=True)
        assert case.play().off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("order", ["multiplied", "aggregated"])
@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_dropout_of_sparse_features_is_that_of_dense_ones(name, order, num_workers):
    """Element by element, so that it does not depend on how they are stored."""
    case = case_of(name, order, "plain", num_workers, 0.4)
    assert case.play().off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("name", LINEAR)
def test_entries_are_counted_where_rows_are(name):
    """Of the features, of what is packed of them, what comes and what is put together, on every worker."""
    cycle = case_of(name, "multiplied", "plain").shared()
    if name != "tagcn":
        cycle = case_of(name, "aggregated", "plain").shared()
    per_row = np.count_nonzero(small_graph().x, axis=1)
    moved = [op for op in cycle.programs["train"] if op.kind in ("take", "exchange", "place")]
    values = {op.writes[0] for op in moved if cycle.values[op.writes[0]].layout == "csr"}
    assert bool(values) == (name != "tagcn")
    for each in ("x", *values):
        value = cycle.values[each]
        counts = [int(per_row[ids].sum()) for ids in cycle.arrays.ids[value.space]]
        assert list(value.num_entries) == counts
        assert [cycle.num_bytes(each, w) for w in cycle.workers] == [8 * count for count in counts]
    assert 0 < np.sum(cycle.values["x"].num_entries) < 36 * NUM_FEATURES * 3


@pytest.mark.parametrize("name", LINEAR)
def test_every_sparse_value_has_its_entries(name):
    """So that its bytes can be told, whoever made it."""
    cycle = Case(MODELS[name], 1, ORDERS["aggregated"], sparse=True).cycle()
    for each, value in cycle.values.items():
        if value.layout == "csr":
            assert cycle.num_bytes(each, 0) > 0


def test_sparse_rows_stay_sparse():
    """What is aggregated of them too, until a product makes them dense."""
    run = Case(MODELS["gcn"], 2, ORDERS["aggregated"], passes=("once",), sparse=True).play()
    assert run.executor.stored["x"][0].layout == torch.sparse_csr
    assert run.executor.stored["l0/aggregate"][0].layout == torch.sparse_csr
    assert run.cycle.values["l0/aggregate"].layout == "csr"
