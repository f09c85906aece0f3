"""Norms are torch's, forward and backward, whatever the number of rows."""

import pytest
import torch
from torch.nn import functional

from gnnplan.profiles.kernels import norms

SHAPES = [(1, 3), (7, 5), (300, 17), (4000, 64)]


def close(got, want):
    scale = float(want.abs().max()) or 1.0
    return float((got - want).abs().max()) <= 1e-5 * scale


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_torchs(shape):
    """Of rows far from zero too."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator) + 3
    weight, bias, grad = (torch.randn(size, generator=generator) for size in (shape[1:], shape[1:], shape))
    leaves = [each.double().requires_grad_() for each in (x, weight, bias)]
    want = functional.layer_norm(leaves[0], shape[1:], leaves[1], leaves[2], 1e-5)
    want.backward(grad.double())
    assert close(norms.layer_norm(x, weight, bias, 1e-5), want.detach())
    for got, leaf in zip(norms.layer_norm_backward(grad, x, weight, 1e-5), leaves, strict=True):
        assert close(got, leaf.grad)


@pytest.mark.parametrize("mean", [0.0, 1e3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_are_of_deviations(shape, mean):
    """So a mean that is large beside the deviations costs no digits."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + mean
    means, squares = norms.moments(x)
    exact = x.double()
    assert close(means, exact.mean(0))
    assert close(squares, ((exact - exact.mean(0)) ** 2).sum(0))


@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_moments_are_autograds(shape, has_base):
    """Alone, or added to what is there."""
    generator = torch.Generator().manual_seed(0)
    x, base = (torch.randn(shape, generator=generator) + 2 for _ in range(2))
    to_mean, to_squares = (torch.randn(shape[1], generator=generator) for _ in range(2))
    leaf = x.double().requires_grad_()
    mean = leaf.mean(0)
    (to_mean.double() @ mean + to_squares.double() @ ((leaf - mean) ** 2).sum(0)).backward()
    got = norms.moments_backward(to_mean, to_squares, x, base.clone() if has_base else None)
    assert close(got, leaf.grad + base if has_base else leaf.grad)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_those_of_autograd(shape):
    """Forward and backward, with statistics that stand for themselves."""
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(shape, generator=generator) for _ in range(2))
    weight, bias, mean = (torch.randn(shape[1], generator=generator) for _ in range(3))
    statistics = torch.stack([mean, torch.rand(shape[1], generator=generator) + 0.5])
    leaves = [each.double().requires_grad_() for each in (x, statistics, weight, bias)]
    rows, of, by, plus = leaves
    want = (rows - of[0]) * (of[1] + 1e-5).rsqrt() * by + plus
    want.backward(grad.double())
    assert close(norms.batch_norm(x, statistics, weight, bias, 1e-5), want.detach())
    for got, leaf in zip(norms.batch_norm_backward(grad, x, statistics, weight, 1e-5), leaves, strict=True):
        assert close(got, leaf.grad)
