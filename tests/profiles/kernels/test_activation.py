"""Bias, ReLU and dropout: one pass equals the torch operators, and dropout is a pure function."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.activation import activate_, activate_backward_, dropout_key, keep_mask

keys = st.integers(0, 2**64 - 1)
probabilities = st.sampled_from([0.1, 0.3, 0.5, 0.9])


def mask_of(key, vertices, width, probability):
    return keep_mask(key, vertices[:, None], torch.arange(width), width, probability)


def random(rows, width, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(keys, probabilities, st.booleans(), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**40))
def test_fused_pass_equals_torch_operators(key, probability, relu, rows, width, first_vertex):
    """The numba pass keeps exactly the elements of keep_mask, for any key and any vertex ids."""
    z, bias = random(rows, width), random(1, width, seed=1)[0]
    vertices = torch.arange(rows) * 7 + first_vertex
    expected = z + bias
    expected = expected.relu() if relu else expected
    expected = expected * mask_of(key, vertices, width, probability) / (1 - probability)
    out = activate_(z, bias, relu=relu, dropout=probability, key=key, vertices=vertices)
    assert out is z
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(keys, probabilities, st.booleans(), st.integers(0, 9), st.integers(0, 9))
def test_columns_are_dropped_alike_in_any_slice(key, probability, relu, start, stop):
    """Some columns of a matrix, by their numbers, bit for bit; also none of them."""
    z, bias, vertices = random(7, 9), random(1, 9, seed=1)[0], torch.arange(7) * 5
    here = slice(min(start, stop), max(start, stop))
    part = z[:, here].clone()
    whole = activate_(z, bias, relu=relu, dropout=probability, key=key, vertices=vertices)
    columns = (here.start, 9)
    activate_(part, bias[here], relu=relu, dropout=probability, key=key, vertices=vertices, columns=columns)
    assert torch.equal(part, whole[:, here])


@pytest.mark.parametrize("relu", [True, False])
def test_without_dropout_needs_no_vertices(relu):
    """Without dropout the pass is bias and ReLU alone, in place."""
    z, bias = random(5, 3), random(1, 3, seed=1)[0]
    expected = (z + bias).relu() if relu else z + bias
    assert activate_(z, bias, relu=relu) is z
    torch.testing.assert_close(z, expected)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
def test_share_dropped_is_the_probability(probability):
    """Over a million elements the kept share is 1 - p within five standard errors, on every column."""
    mask = mask_of(dropout_key(1, 2, 3), torch.arange(20_000), 50, probability).double()
    error = (probability * (1 - probability) / 20_000) ** 0.5
    assert abs(mask.mean() - (1 - probability)) < 5 * error / 50**0.5
    assert (mask.mean(0) - (1 - probability)).abs().max() < 5 * error


@settings(max_examples=40, deadline=None)
@given(keys, probabilities, st.lists(st.integers(0, 199), min_size=1, max_size=60))
def test_rows_are_kept_alike_in_any_subset(key, probability, subset):
    """An element is kept or not whichever rows are asked for beside it and in whichever order."""
    whole = mask_of(key, torch.arange(200), 9, probability)
    vertices = torch.tensor(subset)
    assert torch.equal(mask_of(key, vertices, 9, probability), whole[vertices])


@settings(max_examples=25, deadline=None)
@given(keys, st.integers(1, 5), st.integers(0, 1000))
def test_partition_does_not_change_what_is_dropped(key, num_workers, seed):
    """Workers that each activate their own rows get together what one worker gets."""
    z, bias = random(40, 6, seed), random(1, 6, seed=1)[0]
    part = np.random.default_rng(seed).integers(0, num_workers, 40)
    whole = activate_(z.clone(), bias, relu=True, dropout=0.5, key=key, vertices=torch.arange(40))
    pieces = torch.empty_like(z)
    for worker in range(num_workers):
        own = torch.from_numpy(np.flatnonzero(part == worker))
        pieces[own] = activate_(z[own], bias, relu=True, dropout=0.5, key=key, vertices=own)
    assert torch.equal(whole, pieces)


def test_elements_one_by_one_equal_the_matrix():
    """keep_mask over (row, column) lists, as for sparse features, equals the dense mask."""
    rows, columns = torch.tensor([0, 3, 3, 99]), torch.tensor([4, 0, 5, 2])
    dense = mask_of(17, torch.arange(100), 6, 0.5)
    assert torch.equal(keep_mask(17, rows, columns, 6, 0.5), dense[rows, columns])


@settings(max_examples=60, deadline=None)
@given(*[st.integers(0, 2**32 - 1)] * 3)
def test_key_depends_on_seed_epoch_and_layer(seed, epoch, layer):
    """Each of the three parts changes the 64-bit key, and swapping epoch and layer does too."""
    key = dropout_key(seed, epoch, layer)
    assert 0 <= key < 2**64
    others = {dropout_key(seed + 1, epoch, layer), dropout_key(seed, epoch + 1, layer)}
    others |= {dropout_key(seed, epoch, layer + 1)}
    if epoch != layer:
        others.add(dropout_key(seed, layer, epoch))
    assert key not in others


def test_streams_of_two_epochs_are_independent():
    """Two epochs agree on about half the elements at p = 0.5."""
    first, second = (mask_of(dropout_key(0, epoch, 1), torch.arange(5000), 20, 0.5) for epoch in (0, 1))
    assert abs((first == second).double().mean() - 0.5) < 0.01


@pytest.mark.parametrize(("relu", "dropout"), [(True, 0.0), (True, 0.4), (False, 0.0)])
def test_backward_equals_autograd(relu, dropout):
    """The gradient read off the output equals autograd's through bias, ReLU and the mask."""
    z, bias, vertices = random(30, 8), random(1, 8, seed=1)[0], torch.arange(30)
    grad = random(30, 8, seed=2)
    leaf = z.clone().requires_grad_()
    expected = (leaf + bias).relu() if relu else leaf + bias
    if dropout:
        expected = expected * mask_of(5, vertices, 8, dropout) / (1 - dropout)
    expected.backward(grad)
    out = activate_(z, bias, relu=relu, dropout=dropout, key=5, vertices=vertices)
    torch.testing.assert_close(activate_backward_(grad.clone(), out, relu=relu, dropout=dropout), leaf.grad)


def test_operators_of_a_gpu_equal_the_fused_pass():
    """The torch-operator branch, taken on CUDA, equals the CPU pass; run here on CPU tensors."""
    z, bias, vertices = random(16, 8), random(1, 8, seed=1)[0], torch.arange(16) * 3
    fused = activate_(z.clone(), bias, relu=True, dropout=0.5, key=9, vertices=vertices)
    branch = activate_(AsIfOnGpu(z.clone()), bias, relu=True, dropout=0.5, key=9, vertices=vertices)
    torch.testing.assert_close(branch.as_subclass(torch.Tensor), fused, rtol=1e-6, atol=1e-6)


class AsIfOnGpu(torch.Tensor):
    """A CPU tensor whose `device.type` is not "cpu", so that the kernels take their GPU branch."""

    @property
    def device(self):
        class Device(str):
            type = "cuda"

        return Device("cpu")
