"""The aggregation matrix of every model is what PyG's own message passing computes."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, TAGConv
from torch_geometric.utils import add_self_loops, remove_self_loops

from gnnplan.planner.adjacency import aggregation_matrix


@st.composite
def graphs(draw):
    """(N, edge_index) with self loops, repeated edges and isolated vertices."""
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=40))
    repeated = draw(st.lists(st.sampled_from(pairs), max_size=10)) if pairs else []
    edges = np.array(pairs + repeated, draw(st.sampled_from([np.int32, np.int64]))).reshape(-1, 2)
    return n + draw(st.integers(0, 2)), edges.T


def identity(*layers):
    """Sets the given linear layers to the identity."""
    for layer in layers:
        torch.nn.init.eye_(layer.weight)


def pyg_propagate(kind, x, edge_index):
    """What PyG's convolution of that kind makes of `x` when its weights are the identity."""
    width = x.shape[1]
    match kind:
        case "gcn":
            conv = GCNConv(width, width, bias=False)
            identity(conv.lin)
        case "sage":
            conv = SAGEConv(width, width, root_weight=False, bias=False)
            identity(conv.lin_l)
        case "gin":
            conv = GINConv(torch.nn.Identity())
        case "tagcn":
            conv = TAGConv(width, width, K=1, bias=False)
            torch.nn.init.zeros_(conv.lins[0].weight)
            identity(conv.lins[1])
    with torch.no_grad():
        return conv(x, edge_index).numpy()


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn"])
@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 99))
def test_product_equals_pyg(kind, graph, seed):
    """The matrix times features is PyG's propagation, on any directed graph."""
    n, edge_index = graph
    x = np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)
    ours = aggregation_matrix(n, edge_index, kind) @ x
    theirs = pyg_propagate(kind, torch.from_numpy(x), torch.from_numpy(edge_index).long())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_gat_matrix_lists_the_edges_gat_attends_over(graph):
    """Rows are targets; one self loop a vertex; repeated edges stay repeated, as softmax sees them."""
    n, edge_index = graph
    matrix = aggregation_matrix(n, edge_index, "gat")
    edges, _ = remove_self_loops(torch.from_numpy(edge_index).long())
    edges, _ = add_self_loops(edges, num_nodes=n)
    target = np.repeat(np.arange(n), np.diff(matrix.indptr))
    assert sorted(zip(matrix.indices.tolist(), target.tolist())) == sorted(map(tuple, edges.T.tolist()))
    assert (matrix.data == 1).all()


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn", "gat"])
@settings(max_examples=20, deadline=None)
@given(graphs())
def test_matrix_is_float32_csr_with_sorted_columns(kind, graph):
    """What kernels and shards rely on holds for every model."""
    n, edge_index = graph
    matrix = aggregation_matrix(n, edge_index, kind)
    assert isinstance(matrix, sp.csr_matrix)
    assert matrix.shape == (n, n)
    assert matrix.dtype == np.float32
    assert np.isfinite(matrix.data).all()
    for row in range(n):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        assert (np.diff(columns) >= (0 if kind == "gat" else 1)).all()


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn", "gat"])
def test_edges_given_are_left_alone(kind):
    """Building the matrix does not write into the caller's array."""
    edges = np.array([[2, 0, 0, 1], [1, 0, 2, 0]])
    before = edges.copy()
    aggregation_matrix(3, edges, kind)
    np.testing.assert_array_equal(edges, before)
