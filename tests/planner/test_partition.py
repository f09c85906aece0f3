"""Partitions cover every vertex, leave no part empty, meet their targets and repeat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.partitioning import kaminpar, metis
from gnnplan.planner.partitioning.partition import Partitioning, partition
from gnnplan.planner.partitioning.undirected import Undirected, vertex_weights
from gnnplan.profiles.errors import UserError

METHODS = ["kaminpar", "metis", "ranges"]


@pytest.fixture(scope="module")
def skewed():
    return generate_rmat(RmatGraph(source="rmat", num_nodes=20_000, num_edges=300_000, num_features=1))


@pytest.fixture(scope="module")
def clustered():
    spec = SbmGraph(source="sbm", num_nodes=4000, num_classes=4, homophily=0.95, num_features=1)
    return generate_sbm(spec)


def loads(graph, part, num_parts):
    weight = vertex_weights(graph.num_nodes, graph.edge_index)
    return np.bincount(part, weights=weight, minlength=num_parts) / weight.sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("targets", [None, [0.4, 0.3, 0.2, 0.1], [5, 1, 1, 1]])
def test_every_part_holds_its_share_of_the_edges(skewed, method, targets):
    part = partition(skewed.num_nodes, skewed.edge_index, 4, method, targets, seed=0)
    assert part.dtype == np.int32
    wanted = np.array(targets or [1] * 4) / sum(targets or [1] * 4)
    np.testing.assert_allclose(loads(skewed, part, 4), wanted, rtol=0.1)
    assert (loads(skewed, part, 4) <= 1.04 * wanted).all()


def cut_edges(graph, part):
    """Share of the edges that lead from one part to another."""
    return (part[graph.edge_index[0]] != part[graph.edge_index[1]]).mean()


@pytest.mark.parametrize("targets", [None, [0.5, 0.2, 0.2, 0.1]])
def test_far_fewer_edges_are_cut_than_by_ranges_where_there_are_clusters(clustered, targets):
    """Of uneven parts METIS cuts many more than KaMinPar."""
    part_of = Partitioning(clustered.num_nodes, clustered.edge_index)
    cut = {method: cut_edges(clustered, part_of.into(4, method, targets)) for method in METHODS}
    assert cut["kaminpar"] < (0.1 if targets is None else 0.2) < 0.5 < cut["ranges"]
    assert cut["kaminpar"] <= 1.1 * cut["metis"] < cut["ranges"]


def test_ranges_are_contiguous(skewed):
    part = partition(skewed.num_nodes, skewed.edge_index, 7, "ranges")
    assert (np.diff(part) >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_parts(skewed, method):
    first, again = (partition(skewed.num_nodes, skewed.edge_index, 3, method, None, 7) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("method", ["kaminpar", "metis"])
def test_another_seed_gives_other_parts(skewed, method):
    first, other = (partition(skewed.num_nodes, skewed.edge_index, 3, method, None, s) for s in (1, 2))
    assert (first != other).any()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_part_is_empty_on_any_graph(method, data):
    n = data.draw(st.integers(1, 30))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=80))
    num_parts = data.draw(st.integers(1, n))
    weights = data.draw(st.none() | st.lists(st.floats(0.01, 100), min_size=num_parts, max_size=num_parts))
    edge_index = np.array(pairs, np.int64).reshape(-1, 2).T
    part = partition(n, edge_index, num_parts, method, weights, seed=data.draw(st.integers(0, 2**40)))
    assert part.shape == (n,)
    np.testing.assert_array_equal(np.unique(part), np.arange(num_parts))


@pytest.mark.parametrize(("method", "module"), [("kaminpar", kaminpar), ("metis", metis)])
def test_past_the_limit_partitioners_work_on_a_sample_of_whole_pairs(clustered, method, module, monkeypatch):
    monkeypatch.setattr(module, "MAX_NEIGHBOURS", clustered.num_edges // 2)
    n = clustered.num_nodes
    sample = Undirected.of(n, clustered.edge_index).sampled(clustered.num_edges // 2)
    assert sample.num_neighbours == pytest.approx(clustered.num_edges / 2, rel=0.05)
    source = np.repeat(np.arange(n), np.diff(sample.starts))
    pairs = set(zip(source.tolist(), sample.neighbours.tolist()))
    assert pairs == {(v, u) for u, v in pairs}
    part = partition(n, clustered.edge_index, 4, method)
    assert cut_edges(clustered, part) < 0.1
    np.testing.assert_allclose(loads(clustered, part, 4), 0.25, rtol=0.08)


@pytest.mark.parametrize("num_nodes", [1000, 73_000_000, 111_059_956, 1_000_000_000])
def test_a_file_of_32_bits_has_room_for_all_offsets(num_nodes):
    """Those of vertices lie before those of neighbours."""
    most = kaminpar.most_neighbours(num_nodes)
    assert 24 + 4 * (num_nodes + 1) + 4 * most * 1.005 < 2**32
    assert most >= min(kaminpar.MAX_NEIGHBOURS, 10**7)


def test_what_cannot_be_done_is_a_user_error():
    edges = np.array([[0, 1], [1, 0]])
    with pytest.raises(UserError, match="3 parts for 2 vertices"):
        partition(2, edges, 3, "metis")
    with pytest.raises(UserError, match="at least 1"):
        partition(2, edges, 0, "ranges")
    for weights in ([1.0], [0.0, 0.0], [1.0, -1.0], [1.0, float("nan")]):
        with pytest.raises(UserError, match="2 numbers, one a part"):
            partition(2, edges, 2, "metis", weights)


@pytest.mark.parametrize("method", METHODS)
def test_parts_without_a_share_get_one_light_vertex(skewed, method):
    """Each one vertex, among those that fewest edges lead to; the others share the rest as they would alone."""
    part = partition(skewed.num_nodes, skewed.edge_index, 4, method, [0, 3, 0, 1], seed=0)
    sizes = np.bincount(part, minlength=4)
    assert sizes[0] == sizes[2] == 1
    weight = vertex_weights(skewed.num_nodes, skewed.edge_index)
    assert max(weight[part == 0].item(), weight[part == 2].item()) <= np.sort(weight)[1]
    alone = partition(skewed.num_nodes, skewed.edge_index, 2, method, [3, 1], seed=0)
    assert (np.array([1, 3])[alone] != part).sum() == 2


def test_one_part_may_have_everything(skewed):
    """But for a vertex for each of the others."""
    part = partition(skewed.num_nodes, skewed.edge_index, 3, "metis", [0, 1, 0])
    assert np.bincount(part).tolist() == [1, skewed.num_nodes - 2, 1]
