"""The sizes of the workers' shares add up to the graph, and sampled sizes come near the true ones."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.shapes import worker_shapes


def random_graph(n, seed, *, density=0.2, features=30, degree=3):
    """A random directed graph with mostly-zero features."""
    rng = np.random.default_rng(seed)
    x = sp.random(n, features, density, "csr", np.float32, rng=rng)
    masks = [rng.random(n) < 0.5 for _ in range(3)]
    return Graph(n, rng.integers(0, n, (2, degree * n)), x, np.zeros(n, int), *masks, num_classes=2, name="random")


def matrix_of(graph, kind="gcn"):
    """The aggregation matrix."""
    return aggregation_matrix(graph.num_nodes, graph.edge_index, kind)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 999))
def test_shares_add_up_to_the_graph(n, num_workers, seed):
    """Rows, entries and training vertices are divided without loss; what is sent is what arrives."""
    graph = random_graph(n, seed)
    part = np.random.default_rng(seed).integers(0, num_workers, n)
    halo = build_halo(matrix_of(graph), part, num_workers)
    shapes = worker_shapes(graph, halo, num_hops=1, sparse_features=True)
    assert sum(shape.num_local for shape in shapes) == n
    assert sum(shape.num_edges for shape in shapes) == matrix_of(graph).nnz
    assert sum(shape.num_train for shape in shapes) == graph.train_mask.sum()
    assert sum(shape.num_sent for shape in shapes) == sum(shape.num_halo for shape in shapes)
    assert sum(shape.hop_entries[0] for shape in shapes) == graph.x.nnz
    for shape, block in zip(shapes, halo.blocks, strict=True):
        assert (shape.local_edges, shape.remote_edges) == (block.local.nnz, block.remote.nnz)


@pytest.mark.parametrize("num_hops", [0, 1, 3])
def test_dense_features_have_every_entry_at_every_hop(num_hops):
    """Dense rows do not grow."""
    graph = random_graph(10, 0)
    halo = build_halo(matrix_of(graph), np.arange(10) % 2, 2)
    for shape in worker_shapes(graph, halo, num_hops=num_hops, sparse_features=False):
        assert shape.hop_entries == (5 * 30,) * (num_hops + 1)


@pytest.mark.parametrize("kind", ["gcn", "sage", "tagcn"])
def test_first_hop_is_exact_on_small_graphs(kind):
    """Up to two thousand rows all are looked at, so the entries of AX are counted, not guessed."""
    graph = random_graph(200, 1)
    matrix = matrix_of(graph, kind)
    part = np.arange(200) % 3
    shapes = worker_shapes(graph, build_halo(matrix, part, 3), num_hops=1, sparse_features=True)
    product = (matrix @ graph.x).tocsr()
    for worker, shape in enumerate(shapes):
        assert shape.hop_entries[1] == product[np.flatnonzero(part == worker)].nnz


def test_first_hop_is_near_on_larger_graphs():
    """A sample of two thousand rows comes within a few percent."""
    graph = random_graph(6000, 2, density=0.02, features=200)
    matrix = matrix_of(graph)
    (shape,) = worker_shapes(graph, build_halo(matrix, np.zeros(6000, int), 1), num_hops=1, sparse_features=True)
    assert shape.hop_entries[1] == pytest.approx((matrix @ graph.x).nnz, rel=0.05)


def test_later_hops_never_exceed_dense():
    """Growth is carried on from hop to hop until every entry is there."""
    graph = random_graph(300, 3, density=0.1)
    (shape,) = worker_shapes(
        graph, build_halo(matrix_of(graph), np.zeros(300, int), 1), num_hops=5, sparse_features=True
    )
    assert len(shape.hop_entries) == 6
    assert list(shape.hop_entries) == sorted(shape.hop_entries)
    assert shape.hop_entries[-1] == 300 * 30


def test_dense_storage_is_counted_as_sparse_where_sparse_is_decided():
    """The decision counts, not how the graph holds its features."""
    graph = random_graph(50, 4)
    halo = build_halo(matrix_of(graph), np.zeros(50, int), 1)
    dense = replace(graph, x=graph.x.toarray())
    shapes = [worker_shapes(g, halo, num_hops=2, sparse_features=True) for g in (graph, dense)]
    assert shapes[0] == shapes[1]


def test_worker_without_vertices_has_a_shape_of_zeros():
    """An empty part costs nothing and does not divide by zero."""
    graph = random_graph(10, 5)
    empty = worker_shapes(graph, build_halo(matrix_of(graph), np.zeros(10, int), 2), num_hops=2, sparse_features=True)[
        1
    ]
    assert set(empty.model_dump().values()) == {0, (0, 0, 0)}
