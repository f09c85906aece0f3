"""Weighted sums are those of PyG's layers, loops and repeated edges among them."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.weighted_adjacency import weighted_matrix

NUM_NODES = 7
EDGES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.floats(0.125, 4, width=32)), min_size=1, max_size=30
)


def by_pyg(edge_index, weights, kind):
    """Dense float64 [N, N]."""
    index, weight = torch.from_numpy(edge_index), torch.from_numpy(weights).double()
    if kind != "sum":
        index, weight = gcn_norm(index, weight, NUM_NODES, add_self_loops=kind == "gcn", dtype=torch.float64)
    dense = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.float64)
    return dense.index_put_((index[1], index[0]), weight, accumulate=True).numpy()


@pytest.mark.parametrize("kind", ["gcn", "tagcn", "sum"])
@settings(max_examples=60, deadline=None)
@given(edges=EDGES)
def test_is_pygs(kind, edges):
    """But for a vertex with several loops in `gcn`, of which PyG takes one as it likes."""
    loops = [source for source, target, _ in edges if source == target]
    assume(kind != "gcn" or len(loops) == len(set(loops)))
    edge_index = np.array([edge[:2] for edge in edges]).T
    weights = np.array([edge[2] for edge in edges], np.float32)
    got = weighted_matrix(NUM_NODES, edge_index, weights, kind)
    assert got.dtype == np.float32
    assert got.indices.dtype == np.int32
    np.testing.assert_allclose(got.toarray(), by_pyg(edge_index, weights, kind), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["gcn", "tagcn", "sum"])
def test_weights_of_one_are_none(kind):
    """The matrix without weights."""
    edge_index = np.random.default_rng(0).integers(0, NUM_NODES, (2, 20))
    plain = aggregation_matrix(NUM_NODES, edge_index, kind)
    found = aggregation_matrix(NUM_NODES, edge_index, f"weighted_{kind}", np.ones(20, np.float32))
    np.testing.assert_allclose(found.toarray(), plain.toarray(), rtol=1e-6)
