"""Sums by types of edges give the numbers of PyG's plain training, and their rows are fetched once for all types."""

from functools import cache

import numpy as np
import pytest
from torch_geometric import nn as pyg

from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.halo_exchange.together import blocks_together
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.profiles.errors import UserError
from tests.planner.models.relational_modules import KNOWN, NUM_TYPES, OWN, graph_with_types, relational
from tests.planner.models.trained_modules import by_program, by_pyg, forward_of, made
from tests.planner.program.cases import partition, small_graph

EPOCHS = 4
EVERY = [(1, "halo_exchange"), (2, "replicas"), (4, "halo_exchange")]
EVERY += [
    (3, each)
    for each in ("halo_exchange", "sparse_features", "replicas", "overlap", "joint_cache", "once", "feature_slices")
]


@cache
def by_autograd(name):
    return by_pyg(made({**KNOWN, **OWN}[name]), graph_with_types(), EPOCHS)


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "technique"), EVERY, ids=str)
@pytest.mark.parametrize("name", KNOWN)
def test_trains_as_pyg_does(name, num_workers, technique):
    """Losses, parameters and what an evaluation finds right, and no layer's own code runs."""
    got = by_program(made(KNOWN[name]), graph_with_types(), num_workers, technique, EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    assert got.hits == by_autograd(name).hits
    cycle = forward_of(made(KNOWN[name]), graph_with_types())
    assert not any(op.kind == "layer" for op in cycle.programs["train"])


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "technique"), [(1, "halo_exchange"), (3, "overlap"), (3, "replicas")], ids=str)
@pytest.mark.parametrize("name", OWN)
def test_others_run_their_own_code(name, num_workers, technique):
    """On whole numbers, which are below the number of types when a layer is tried."""
    got = by_program(made(OWN[name]), graph_with_types(), num_workers, technique, EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    assert got.hits == by_autograd(name).hits


def test_types_count():
    """Other types make other numbers."""
    graph = graph_with_types()
    graph.edge_values["edge_type"][:] = graph.edge_values["edge_type"][::-1].copy()
    assert by_pyg(made(KNOWN["rgcn"]), graph, EPOCHS).off(by_autograd("rgcn")) > 1e-2


@pytest.mark.parametrize(("order", "exchanges"), [("aggregate_first", 1), ("multiply_first", 3)])
def test_rows_are_fetched_once_for_all_types(order, exchanges):
    """Where rows are aggregated first. A product with each type's weight is another value: these travel alone."""
    cycle = forward_of(made(KNOWN["rgcn"]), graph_with_types())
    cycle = expand_filters(cycle, {op.key: order for op in cycle.programs["train"] if op.kind == "filter"})
    shared = share_rows(cycle, Cutter(partition(3), 3))
    layer = [op for op in shared.programs["train"] if op.kind == "exchange" and op.attributes["level"] == 0]
    assert len(layer) == exchanges
    if exchanges == 1:
        (route,) = (shared.routes[op.attributes["route"]] for op in layer)
        assert route.counts.sum() == halo_rows_of_all_edges()


def halo_rows_of_all_edges():
    source, target = small_graph().edge_index
    part = partition(3)
    is_crossing = part[source] != part[target]
    pairs = np.unique(np.stack([part[target], source])[:, is_crossing], axis=1)
    return pairs.shape[1]


def test_blocks_of_one_value_are_together():
    """Where all of them gather the same; not those of other levels, nor of products with weights."""
    cycle = forward_of(made(KNOWN["beside a sum over all"]), graph_with_types())
    filters = [op.key for op in cycle.programs["train"] if op.kind == "filter"]
    together = blocks_together(expand_filters(cycle, dict.fromkeys(filters, "aggregate_first")))
    first = [f"mean_of_type_{number}@0" for number in range(NUM_TYPES)]
    assert together["sage@0"] == tuple(sorted([*first, "sage@0"])) == together[first[0]]
    assert all(name.endswith("@1") for name in together["mean_of_type_0@1"])
    assert all(len(each) == 1 for each in blocks_together(expand_filters(cycle, {})).values())


def test_more_types_than_relations_are_refused():
    """By the line and both numbers."""
    words = r"relational_modules.py:\d+: convs.0 \(RGCNConv\): num_relations = 3, and the graph's edges have 4 types"
    with pytest.raises(UserError, match=words):
        forward_of(made(relational(pyg.RGCNConv, num_relations=3)), graph_with_types())


def test_a_graph_without_types_is_refused():
    """By the argument's name."""
    with pytest.raises(UserError, match=r"also takes 'edge_type', .* for the graph has no edge_type"):
        forward_of(made(KNOWN["rgcn"]), small_graph())
