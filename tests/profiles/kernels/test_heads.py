"""What is done to rows of several heads equals einsum in float64."""

import pytest
import torch

from gnnplan.profiles.kernels.heads import (
    average_heads,
    head_dots,
    head_dots_to_rows,
    head_dots_to_vector,
    spread_heads,
)

N, CHANNELS = 50, 6


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(found, wanted):
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 4])
def test_products_with_a_vector_a_head(heads):
    """And the gradients at rows, with and without a base, and at the vector."""
    x, vector, grad = noise(N, heads * CHANNELS), noise(1, heads * CHANNELS, seed=1), noise(N, heads, seed=2)
    h, v = x.double().view(N, heads, CHANNELS), vector.double().view(heads, CHANNELS)
    close(head_dots(x, vector, heads), torch.einsum("nhc,hc->nh", h, v))
    to_rows = torch.einsum("nh,hc->nhc", grad.double(), v).flatten(1)
    close(head_dots_to_rows(grad, vector), to_rows)
    base = noise(N, heads * CHANNELS, seed=3)
    wanted = base.double() + to_rows
    assert head_dots_to_rows(grad, vector, base) is base
    close(base, wanted)
    to_vector = torch.einsum("nh,nhc->hc", grad.double(), h)
    close(head_dots_to_vector(grad, x), to_vector)


@pytest.mark.parametrize("heads", [1, 4])
def test_heads_are_averaged_and_spread(heads):
    """Spreading is the derivative of the mean."""
    x, grad = noise(N, heads * CHANNELS).requires_grad_(), noise(N, CHANNELS, seed=1)
    mean = x.view(N, heads, CHANNELS).mean(1)
    torch.testing.assert_close(average_heads(x.detach(), heads), mean.detach())
    (wanted,) = torch.autograd.grad(mean, x, grad)
    torch.testing.assert_close(spread_heads(grad, heads), wanted)
