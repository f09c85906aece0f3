"""GAT's step as a whole equals PyG's layer: the output, averaged over heads or not, and every gradient."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GATConv

from gnnplan.profiles.kernels.attend import attend_backward, attend_forward
from gnnplan.profiles.kernels.attention import EdgeBlock

N, HEADS, CHANNELS = 30, 3, 5


def edges():
    """Every vertex with itself, and random others once each."""
    rng = np.random.default_rng(0)
    matrix = sp.csr_matrix((rng.random((N, N)) < 0.15) | np.eye(N, dtype=bool))
    return sp.csr_matrix((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


@pytest.mark.parametrize("averages", [True, False])
def test_a_step_is_pygs_layer(averages):
    """With the features multiplied already, so that the layer's own product is the identity."""
    matrix, generator = edges(), torch.Generator().manual_seed(0)
    q = torch.randn(N, HEADS * CHANNELS, generator=generator)
    layer = GATConv(HEADS * CHANNELS, CHANNELS, HEADS, concat=not averages, bias=False, add_self_loops=False)
    with torch.no_grad():
        layer.lin.weight.copy_(torch.eye(HEADS * CHANNELS))
    leaf = q.clone().requires_grad_()
    target = torch.from_numpy(np.repeat(np.arange(N), np.diff(matrix.indptr)))
    expected = layer(leaf, torch.stack([torch.from_numpy(matrix.indices).long(), target]))
    grad = torch.randn(expected.shape, generator=generator)
    wanted = torch.autograd.grad(expected, [leaf, layer.att_src, layer.att_dst], grad)

    att_source, att_target = layer.att_src.detach(), layer.att_dst.detach()
    block = EdgeBlock.from_csr(matrix)
    out, scores = attend_forward(block, q, att_source, att_target, averages=averages)
    torch.testing.assert_close(out, expected.detach(), rtol=1e-4, atol=1e-5)
    assert scores.alpha.shape == (matrix.nnz, HEADS)
    got = attend_backward(block, q, att_source, att_target, scores, grad, averages=averages)
    for mine, pygs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, pygs, rtol=1e-4, atol=1e-5)


def test_halo_rows_are_sources_and_no_targets():
    """Twenty targets of thirty rows: the last ten get gradients, and no output."""
    matrix = edges()[:20]
    q = torch.randn(N, HEADS * CHANNELS, generator=torch.Generator().manual_seed(1))
    att = torch.ones(1, HEADS, CHANNELS)
    out, scores = attend_forward(EdgeBlock.from_csr(matrix), q, att, att, averages=False)
    assert out.shape == (20, HEADS * CHANNELS)
    grad_q, *_ = attend_backward(EdgeBlock.from_csr(matrix), q, att, att, scores, torch.ones_like(out), averages=False)
    assert grad_q.shape == q.shape
    assert grad_q[20:].abs().sum() > 0
