"""Hops of the input features computed once: the powers of the matrix, dense or sparse alike."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.shard import cut_shard
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.model import block_of
from gnnplan.runtime.operators import SparseInput
from gnnplan.runtime.precompute import input_value, precompute_hops
from gnnplan.runtime.recorder import Recorder

CPU = torch.device("cpu")
N = 20


@pytest.fixture
def graph():
    rng = np.random.default_rng(2)
    mask = np.ones(N, bool)
    x = rng.standard_normal((N, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.6] = 0
    return Graph(N, rng.integers(0, N, (2, 70)), x, np.zeros(N, np.int64), mask, mask, mask, 2, "test")


@pytest.mark.parametrize("sparse", [False, True])
def test_hop_k_is_the_kth_power(graph, sparse):
    """x0 is X and x{k} is A^k X, sparse features staying sparse with their transpose beside them."""
    matrix = aggregation_matrix(N, graph.edge_index, "gcn")
    shard = cut_shard(graph, build_halo(matrix, np.zeros(N, np.int64), 1), 0, sparse_features=sparse)
    block = block_of(shard, HaloExchanger.from_shard(shard, Recorder(CPU)))
    hops = precompute_hops(shard, block, 3)
    assert list(hops) == ["x0", "x1", "x2", "x3"]
    expected = graph.x
    for name in hops:
        value = hops[name]
        assert isinstance(value, SparseInput) == sparse
        if sparse:
            torch.testing.assert_close(value.columns.to_dense(), value.rows.to_dense().t())
            value = value.rows.to_dense()
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
        expected = matrix @ expected


def test_input_value_keeps_the_format():
    """Dense features become a tensor, CSR features a SparseInput of the same numbers."""
    dense = np.float32([[0, 1], [2, 0], [0, 0]])
    assert input_value(dense, CPU).tolist() == dense.tolist()
    value = input_value(sp.csr_matrix(dense), CPU)
    assert value.rows.to_dense().tolist() == dense.tolist()
    assert value.columns.to_dense().tolist() == dense.T.tolist()
