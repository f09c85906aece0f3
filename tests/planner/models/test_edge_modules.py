"""Weights and features of edges are cut with a worker's edges, and give the numbers of PyG's plain training."""

from functools import cache

import pytest
from torch import nn

from gnnplan.profiles.errors import UserError
from tests.planner.models.edge_modules import CARRIED, KNOWN, OWN, Featured, Weighted, graph_with_edges
from tests.planner.models.own_modules import WIDTH
from tests.planner.models.trained_modules import by_program, by_pyg, forward_of, made
from tests.planner.program.cases import small_graph

EPOCHS = 4


@cache
def by_autograd(name):
    return by_pyg(made({**KNOWN, **OWN, **CARRIED}[name]), graph_with_edges(), EPOCHS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_workers", "technique"),
    [(1, "halo_exchange"), (3, "halo_exchange"), (3, "replicas"), (3, "overlap"), (2, "joint_cache")],
    ids=str,
)
@pytest.mark.parametrize("name", [*KNOWN, *OWN])
def test_trains_as_pyg_does(name, num_workers, technique):
    """Losses, parameters and what an evaluation finds right."""
    got = by_program(made({**KNOWN, **OWN}[name]), graph_with_edges(), num_workers, technique, EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    assert got.hits == by_autograd(name).hits


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_workers", "technique"),
    [(1, "halo_exchange"), (2, "halo_exchange"), (4, "halo_exchange"), (3, "overlap"), (3, "joint_cache")],
    ids=str,
)
@pytest.mark.parametrize("name", CARRIED)
def test_layers_carry_features_of_edges(name, num_workers, technique):
    """Workers keep those of their own edges from layer to layer, and send none of them."""
    got = by_program(made(CARRIED[name]), graph_with_edges(), num_workers, technique, EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    assert got.hits == by_autograd(name).hits


@pytest.mark.parametrize("name", KNOWN)
def test_weighted_sums_under_columns(name):
    """Of known layers every layout, and no code of theirs."""
    got = by_program(made(KNOWN[name]), graph_with_edges(), 3, "feature_slices", EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    cycle = forward_of(made(KNOWN[name]), graph_with_edges())
    assert not any(op.kind == "layer" for op in cycle.programs["train"])


@pytest.mark.parametrize("name", ["gcn, weights", "gatv2, features"])
def test_they_count(name):
    """Other weights and features make other numbers."""
    graph = graph_with_edges()
    for values in graph.edge_values.values():
        values[:] = values[::-1].copy()
    assert by_pyg(made({**KNOWN, **OWN}[name]), graph, EPOCHS).off(by_autograd(name)) > 1e-2


class Normed(Featured):
    """A batch norm over edges, whose means are those of the graph's edges."""

    def __init__(self, convs):
        super().__init__(convs)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, edge_index, edge_attr):
        return super().forward(x, edge_index, edge_attr=self.norm(edge_attr))


class Joined(Featured):
    """Two values on edges that meet."""

    def forward(self, x, edge_index, edge_attr):
        return super().forward(x, edge_index, edge_attr=edge_attr + edge_attr.relu())


@pytest.mark.parametrize(("kind", "call"), [(Normed, r"norm \(BatchNorm1d\)"), (Joined, "add")])
def test_what_is_no_function_of_rows_of_edges_is_refused(kind, call):
    """By the line and the reason; and where the graph has none of them."""
    words = rf"test_edge_modules.py:\d+: {call}: outside of a layer features of edges have only functions of their rows"
    with pytest.raises(UserError, match=words):
        forward_of(made(lambda f, c: kind([nn.Identity()])), graph_with_edges())
    with pytest.raises(UserError, match=r"also takes 'edge_attr', and is given \(x, edge_index\) alone, for the graph"):
        forward_of(made(lambda f, c: kind([nn.Identity()])), small_graph())


def test_without_weights_a_module_takes_its_own():
    """An argument with a default stays at it where the graph has none."""
    cycle = forward_of(made(KNOWN["gcn, weights"]), small_graph())
    assert [op.attributes["matrix"] for op in cycle.programs["train"] if op.kind == "filter"] == ["gcn", "gcn"]
    assert isinstance(made(KNOWN["gcn, weights"]), Weighted)
    assert WIDTH > 1
