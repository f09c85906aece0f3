"""Edges are trained on, validated or tested, and pairs beside them are no edges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.graph import Graph
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.link.split import link_graph
from gnnplan.profiles.errors import UserError


def graph_of(edge_index, num_nodes):
    mask = np.ones(num_nodes, bool)
    x = np.ones((num_nodes, 2), np.float32)
    return Graph(num_nodes, edge_index, x, np.zeros(num_nodes, np.int64), mask, mask, mask, 1, "drawn")


@st.composite
def graphs(draw):
    """With self loops and edges that are there twice; half of them have every edge both ways."""
    n = draw(st.integers(3, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    edges = rng.integers(0, n, (2, draw(st.integers(1, 80)))).astype(np.int32)
    edges = np.concatenate([edges, [[0], [1]]], 1).astype(np.int32)
    both = draw(st.booleans())
    return graph_of(np.concatenate([edges, edges[::-1]], 1) if both else edges, n), both


def pairs_of(table):
    of = table.matrix.tocoo()
    return of.row.astype(np.int64), of.col.astype(np.int64), table.told[of.data - 1]


def keys_of(graph, edge_index):
    source, target = edge_index.astype(np.int64)
    return set((source * graph.num_nodes + target).tolist())


@given(graphs(), st.floats(0, 0.4), st.floats(0, 0.4), st.integers(1, 3), st.integers(1, 6), st.integers(0, 5))
def test_pairs_are_what_they_are_told_to_be(drawn, val, test, num_negatives, num_ranked, seed):
    """Positives are edges, each in one split; negatives are none; what is kept is not summed over, either way."""
    graph, _ = drawn
    spec = LinkSpec(val_fraction=val, test_fraction=test, num_negatives=num_negatives, num_ranked=num_ranked, width=4)
    found, n, edges = link_graph(graph, spec, seed), graph.num_nodes, keys_of(graph, graph.edge_index)
    heads, tails, told = pairs_of(found.pairs.trained)
    is_edge = told[:, 0] == 1
    keys = heads * n + tails
    assert set(keys[is_edge].tolist()) <= keys_of(found, found.edge_index) <= edges
    assert not set(keys[~is_edge].tolist()) & edges
    assert (heads != tails).all()
    own, negatives = (np.bincount(heads[each], minlength=n) for each in (is_edge, ~is_edge))
    assert (negatives <= own * num_negatives).all()
    heads, tails, told = pairs_of(found.pairs.ranked)
    keys, kept = heads * n + tails, (told[:, 1:3] == 1).any(1)
    summed = keys_of(found, found.edge_index)
    assert not set(keys[kept].tolist()) & summed
    if (np.unique(keys_of_reverse(graph)) == np.unique(list(edges))).all():
        assert not set((tails * n + heads)[kept].tolist()) & summed
    assert (told.sum(1) == 1).all()
    assert not set(keys[told[:, 3] == 1].tolist()) & edges
    assert (np.bincount(heads[told[:, 3] == 1], minlength=n) <= num_ranked).all()
    assert found.validate().fingerprint == link_graph(graph, spec, seed).fingerprint


def keys_of_reverse(graph):
    return np.array(sorted(keys_of(graph, graph.edge_index[::-1])))


def ring(n=40):
    at = np.arange(n, dtype=np.int32)
    return graph_of(np.stack([np.r_[at, (at + 1) % n], np.r_[(at + 1) % n, at]]), n)


def test_all_that_is_asked_for_is_drawn():
    """Where there is room for it: the counts are exact, and so are the shares of the splits."""
    found = link_graph(ring(), LinkSpec(val_fraction=0.1, test_fraction=0.2, num_negatives=2, num_ranked=7), 0)
    _, _, told = pairs_of(found.pairs.trained)
    assert (told.sum(), len(told)) == (28, 3 * 28)
    heads, _, told = pairs_of(found.pairs.ranked)
    assert told.sum(0).tolist() == [8, 4, 8, 7 * len(np.unique(heads))]
    assert found.num_edges == 56


def test_a_seed_draws_others():
    """Another split and other negatives."""
    fingerprints = {link_graph(ring(), LinkSpec(), seed).fingerprint for seed in range(3)}
    assert len(fingerprints) == 3


def test_negatives_may_be_of_tails_alone():
    """Users choose among items."""
    rng = np.random.default_rng(0)
    edges = np.stack([rng.integers(0, 20, 60), rng.integers(20, 50, 60)]).astype(np.int32)
    found = link_graph(graph_of(edges, 50), LinkSpec(tails="tails", num_ranked=5), 0)
    for table in found.pairs.named().values():
        heads, tails, _ = pairs_of(table)
        assert heads.max() < 20 <= tails.min()
    _, tails, _ = pairs_of(link_graph(graph_of(edges, 50), LinkSpec(num_ranked=5), 0).pairs.ranked)
    assert tails.min() < 20


def test_values_of_edges_stay_with_their_edges():
    """Of those that are summed over."""
    graph = ring()
    weights = graph.edge_index[0] * 100.0 + graph.edge_index[1]
    found = link_graph(replace(graph, edge_values={"edge_weight": weights.astype(np.float32)}), LinkSpec(), 1)
    assert (found.edge_values["edge_weight"] == found.edge_index[0] * 100.0 + found.edge_index[1]).all()
    assert found.num_edges < graph.num_edges


def test_what_has_no_pairs_is_refused():
    """Self loops are none; of a single edge nothing is kept."""
    loops = graph_of(np.array([[0, 1], [0, 1]], np.int32), 2)
    with pytest.raises(UserError, match="needs edges between different vertices"):
        link_graph(loops, LinkSpec(), 0)
    one = link_graph(graph_of(np.array([[0], [1]], np.int32), 3), LinkSpec(test_fraction=0.9), 0)
    assert one.pairs.trained.told.tolist() in ([[1], [0]], [[0], [1]])
    with pytest.raises(ValueError, match="must be below 1"):
        LinkSpec(val_fraction=0.5, test_fraction=0.5)


def test_more_pairs_than_memory_are_refused():
    """Before any is drawn."""
    with pytest.raises(UserError, match="pairs of a link prediction"):
        link_graph(ring(), LinkSpec(num_ranked=10**9), 0)
