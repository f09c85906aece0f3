"""Operators over edges equal autograd's, and the loops of one thread give the bits of those of several."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnplan.profiles.kernels.edge_block import NEGATIVE_SLOPE, EdgeBlock
from gnnplan.profiles.kernels.edges import (
    edge_scores,
    edge_scores_backward,
    edge_softmax,
    edge_softmax_backward,
    weigh,
    weigh_backward,
)

TARGETS, SOURCES, NUM_EDGES, HEADS, CHANNELS = 40, 25, 300, 3, 5


@pytest.fixture(params=[1, 2])
def threads(request):
    """As many of numba's."""
    before = numba.get_num_threads()
    if request.param > before:
        pytest.skip("one core")
    numba.set_num_threads(request.param)
    yield request.param
    numba.set_num_threads(before)


def random_block(seed):
    """Repeated edges, and targets and sources without any."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, TARGETS - 2, NUM_EDGES))
    indptr = np.searchsorted(rows, np.arange(TARGETS + 1)).astype(np.int32)
    columns = rng.integers(0, SOURCES - 2, NUM_EDGES).astype(np.int32)
    matrix = sp.csr_matrix((np.ones(NUM_EDGES, np.float32), columns, indptr), shape=(TARGETS, SOURCES))
    return EdgeBlock.from_csr(matrix)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


BLOCK = random_block(0)


def scores_of(source, target):
    """By torch's own operators."""
    return torch.nn.functional.leaky_relu(source[BLOCK.source] + target[BLOCK.target], NEGATIVE_SLOPE)


def close(found, wanted):
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-5)


def test_scores_and_their_gradients(threads):
    """At sources and at targets; who has no edge gets zeros."""
    source, target = noise(SOURCES, HEADS).requires_grad_(), noise(TARGETS, HEADS, seed=1).requires_grad_()
    grad, wanted = noise(NUM_EDGES, HEADS, seed=2), scores_of(source, target)
    close(edge_scores(BLOCK, source.detach(), target.detach()), wanted)
    found = edge_scores_backward(BLOCK, grad, source.detach(), target.detach())
    for mine, theirs in zip(found, torch.autograd.grad(wanted, [source, target], grad), strict=True):
        close(mine, theirs)
    assert not found[0][-2:].any()
    assert not found[1][-2:].any()


def test_softmax_of_two_blocks_is_that_of_all_their_edges(threads):
    """And the gradients at its scores."""
    blocks = [BLOCK, random_block(1)]
    scores = [noise(NUM_EDGES, HEADS, seed=seed).requires_grad_() for seed in (3, 4)]
    targets, together = torch.cat([block.target for block in blocks]), torch.cat(scores)
    weights = torch.exp(together)
    total = torch.zeros(TARGETS, HEADS).index_add(0, targets, weights)
    wanted = (weights / total[targets]).split(NUM_EDGES)
    alphas = edge_softmax(blocks, [score.detach() for score in scores])
    grads = [noise(NUM_EDGES, HEADS, seed=seed) for seed in (5, 6)]
    for found, expected in zip(alphas, wanted, strict=True):
        close(found, expected)
    to_scores = torch.autograd.grad(wanted, scores, grads)
    for found, expected in zip(edge_softmax_backward(blocks, grads, list(alphas)), to_scores, strict=True):
        close(found, expected)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("has_base", [False, True])
def test_weighted_sums_both_ways(threads, back, has_base):
    """Added to the base, which they overwrite."""
    to, of = (BLOCK.source, BLOCK.target) if back else (BLOCK.target, BLOCK.source)
    num_to, num_of = (SOURCES, TARGETS) if back else (TARGETS, SOURCES)
    alpha, x = noise(NUM_EDGES, HEADS), noise(num_of, HEADS * CHANNELS, seed=1)
    base = noise(num_to, HEADS * CHANNELS, seed=2) if has_base else None
    messages = alpha[:, :, None] * x.view(num_of, HEADS, CHANNELS)[of]
    wanted = torch.zeros(num_to, HEADS * CHANNELS).index_add(0, to, messages.flatten(1))
    wanted = wanted + base if has_base else wanted
    found = weigh(BLOCK, alpha, x, base, back=back)
    close(found, wanted)
    assert has_base == (found is base)


def test_inner_products_at_every_edge(threads):
    """Head by head."""
    grad, x = noise(TARGETS, HEADS * CHANNELS), noise(SOURCES, HEADS * CHANNELS, seed=1)
    product = (grad[BLOCK.target] * x[BLOCK.source]).view(NUM_EDGES, HEADS, CHANNELS)
    close(weigh_backward(BLOCK, grad, x, HEADS), product.sum(2))


@pytest.mark.skipif(numba.get_num_threads() < 2, reason="one core")
def test_no_bit_depends_on_the_number_of_threads():
    """One thread has loops of its own for sums at sources."""
    csr = sp.random(400, 300, 0.1, "csr", np.float32, rng=np.random.default_rng(0))
    block, before, found = EdgeBlock.from_csr(csr), numba.get_num_threads(), []
    grad, source, target = noise(csr.nnz, 4), noise(300, 4, seed=1), noise(400, 4, seed=2)
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            sums = weigh(block, grad, noise(400, 64, seed=3), back=True)
            found.append((sums, *edge_scores_backward(block, grad, source, target)))
    finally:
        numba.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
