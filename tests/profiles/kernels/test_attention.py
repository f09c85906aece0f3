"""GAT's attention of its operators, compiled for the CPU and torch's own of CUDA, equals PyG's softmax and autograd."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import softmax

from gnnplan.profiles.kernels.edge_block import NEGATIVE_SLOPE, EdgeBlock
from gnnplan.profiles.kernels.edges import (
    edge_scores,
    edge_scores_backward,
    edge_softmax,
    edge_softmax_backward,
    weigh,
    weigh_backward,
)


class AsIfOnGpu(torch.Tensor):
    """A CPU tensor whose `device.type` is not "cpu", so that the kernels take their GPU branch."""

    @property
    def device(self):
        class Device(str):
            type = "cuda"

        return Device("cpu")


def random_edges(targets, sources, num_edges, seed):
    """CSR [targets, sources] that keeps repeated entries."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, targets, num_edges))
    indptr = np.searchsorted(rows, np.arange(targets + 1)).astype(np.int32)
    columns = rng.integers(0, sources, num_edges).astype(np.int32)
    return sp.csr_matrix((np.ones(num_edges, np.float32), columns, indptr), shape=(targets, sources))


def inputs(targets, sources, heads, channels, seed):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, generator=generator)
        for shape in ((sources, heads, channels), (sources, heads), (targets, heads), (targets, heads, channels))
    ]


def oracle(matrix, h, a_source, a_target, grad):
    """Output, coefficients and gradients in float64 by PyG's softmax and autograd."""
    target = torch.from_numpy(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)))
    source = torch.from_numpy(matrix.indices).long()
    leaves = [value.double().requires_grad_() for value in (h, a_source, a_target)]
    score = torch.nn.functional.leaky_relu(leaves[1][source] + leaves[2][target], NEGATIVE_SLOPE)
    alpha = softmax(score, target, num_nodes=matrix.shape[0])
    out = torch.zeros(grad.shape, dtype=torch.float64).index_add(0, target, alpha[:, :, None] * leaves[0][source])
    grads = torch.autograd.grad(out, leaves, grad.double())
    return out.detach(), alpha.detach(), grads


def run(matrix, h, a_source, a_target, grad, as_if_on_gpu):
    """The same by the operators under test."""
    edges, heads = EdgeBlock.from_csr(matrix), h.shape[1]
    h, grad = h.flatten(1), grad.flatten(1)
    if as_if_on_gpu:
        h, a_source, a_target, grad = (each.as_subclass(AsIfOnGpu) for each in (h, a_source, a_target, grad))
    (alpha,) = edge_softmax([edges], [edge_scores(edges, a_source, a_target)])
    out = weigh(edges, alpha, h)
    (grad_score,) = edge_softmax_backward([edges], [weigh_backward(edges, grad, h, heads)], [alpha])
    grad_h = weigh(edges, alpha, grad, back=True)
    grads = (grad_h, *edge_scores_backward(edges, grad_score, a_source, a_target))
    out, alpha, grad_h, *rest = (each.as_subclass(torch.Tensor) for each in (out, alpha, *grads))
    return out.unflatten(1, (heads, -1)), alpha, (grad_h.unflatten(1, (heads, -1)), *rest)


def assert_equal_to_oracle(matrix, values, as_if_on_gpu):
    out, alpha, grads = run(matrix, *values, as_if_on_gpu)
    expected_out, expected_alpha, expected_grads = oracle(matrix, *values)
    close = {"rtol": 1e-4, "atol": 1e-5, "check_dtype": False}
    torch.testing.assert_close(out, expected_out, **close)
    torch.testing.assert_close(alpha, expected_alpha, **close)
    for grad, expected in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected, **close)


@pytest.mark.parametrize("as_if_on_gpu", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    targets=st.integers(1, 12),
    extra=st.integers(0, 6),
    num_edges=st.integers(0, 60),
    heads=st.integers(1, 4),
    channels=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_forward_and_backward_equal_pyg(as_if_on_gpu, targets, extra, num_edges, heads, channels, seed):
    """Output, coefficients and all three gradients, with halo columns, empty rows and repeated edges."""
    sources = targets + extra
    matrix = random_edges(targets, sources, num_edges, seed)
    assert_equal_to_oracle(matrix, inputs(targets, sources, heads, channels, seed), as_if_on_gpu)


@pytest.mark.parametrize("as_if_on_gpu", [False, True])
def test_rows_without_edges_are_zero(as_if_on_gpu):
    """A vertex that nobody sends to gets zeros and sends no gradient to its target score."""
    matrix = sp.csr_matrix((np.ones(2, np.float32), np.int32([0, 1]), np.int32([0, 0, 2, 2])), shape=(3, 3))
    out, alpha, (grad_h, grad_source, grad_target) = run(matrix, *inputs(3, 3, 2, 4, 0), as_if_on_gpu)
    assert out[[0, 2]].abs().max() == 0
    assert grad_target[[0, 2]].abs().max() == 0
    assert grad_h[2].abs().max() == 0
    assert grad_source[2].abs().max() == 0
    torch.testing.assert_close(alpha.sum(0), torch.ones(2))


@pytest.mark.parametrize("as_if_on_gpu", [False, True])
def test_repeated_edge_weighs_as_often_as_it_is_listed(as_if_on_gpu):
    """Equal scores over (a, a, b) give a two thirds of the weight."""
    matrix = sp.csr_matrix((np.ones(3, np.float32), np.int32([0, 0, 1]), np.int32([0, 3])), shape=(1, 2))
    h = torch.tensor([[[1.0]], [[4.0]]])
    out, alpha, _ = run(matrix, h, torch.zeros(2, 1), torch.zeros(1, 1), torch.ones(1, 1, 1), as_if_on_gpu)
    torch.testing.assert_close(out, torch.tensor([[[2.0]]]))
    torch.testing.assert_close(alpha, torch.full((3, 1), 1 / 3))


@pytest.mark.parametrize("as_if_on_gpu", [False, True])
def test_large_scores_do_not_overflow(as_if_on_gpu):
    """Scores of a thousand, whose exponentials overflow, still give coefficients that sum to one."""
    matrix = random_edges(5, 5, 30, 1)
    h, a_source, a_target, grad = inputs(5, 5, 2, 3, 1)
    assert_equal_to_oracle(matrix, (h, a_source * 1000, a_target * 1000, grad), as_if_on_gpu)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 50), st.integers(0, 10**6))
def test_edges_by_source_are_the_same_edges(targets, sources, num_edges, seed):
    """`by_source_edge` is a permutation whose j-th slice holds exactly the edges of source j, in order."""
    edges = EdgeBlock.from_csr(random_edges(targets, sources, num_edges, seed))
    assert sorted(edges.by_source_edge.tolist()) == list(range(num_edges))
    for j in range(sources):
        listed = edges.by_source_edge[edges.by_source_ptr[j] : edges.by_source_ptr[j + 1]]
        assert torch.equal(listed, (edges.source == j).nonzero()[:, 0])


def test_same_input_same_bits():
    """Two passes over a skewed block give identical bits: the order of additions is fixed."""
    matrix = random_edges(50, 60, 3000, 3)
    values = inputs(50, 60, 4, 8, 3)
    first, second = run(matrix, *values, False), run(matrix, *values, False)
    assert torch.equal(first[0], second[0])
    assert all(torch.equal(a, b) for a, b in zip(first[2], second[2], strict=True))
