"""The loss and its gradient in one pass equal torch's losses and autograd."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.loss import distance_and_grad, loss_and_grad, own_loss_and_grad


def case(n, classes, num_rows, multilabel, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, classes, generator=generator)
    rows = torch.randperm(n, generator=generator)[:num_rows]
    if multilabel:
        y = (torch.rand(num_rows, classes, generator=generator) < 0.4).float()
    else:
        y = torch.randint(0, classes, (num_rows,), generator=generator)
    return logits, rows, y


def autograd(logits, rows, y, denominator):
    leaf = logits.double().requires_grad_()
    if y.dim() == 2:
        loss = F.binary_cross_entropy_with_logits(leaf[rows], y.double(), reduction="sum")
    else:
        loss = F.cross_entropy(leaf[rows], y, reduction="sum")
    loss = loss / denominator
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


@pytest.mark.parametrize("multilabel", [False, True])
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 7), st.integers(0, 20), st.integers(1, 500), st.integers(0, 10**6))
def test_loss_and_gradient_equal_autograd(multilabel, n, classes, num_rows, denominator, seed):
    """Both losses, any rows (none included) and any denominator, against float64 autograd."""
    logits, rows, y = case(n, classes, min(n, num_rows), multilabel, seed)
    loss, grad = loss_and_grad(logits, rows, y, denominator)
    expected_loss, expected_grad = autograd(logits, rows, y, denominator)
    torch.testing.assert_close(loss, expected_loss, check_dtype=False, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, expected_grad, check_dtype=False, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("multilabel", [False, True])
def test_mean_over_all_rows_is_torchs_mean(multilabel):
    """With the denominator of the whole graph the sum is torch's mean loss."""
    logits, rows, y = case(12, 5, 12, multilabel, 0)
    loss, _ = loss_and_grad(logits, rows, y, 60 if multilabel else 12)
    mean = F.binary_cross_entropy_with_logits if multilabel else F.cross_entropy
    torch.testing.assert_close(loss, mean(logits[rows], y))


@pytest.mark.parametrize("multilabel", [False, True])
def test_shares_of_two_workers_add_up(multilabel):
    """Two workers' losses over their own rows, one denominator, sum to the whole loss."""
    logits, rows, y = case(12, 5, 12, multilabel, 3)
    whole, grad = loss_and_grad(logits, rows, y, 12)
    parts = [loss_and_grad(logits, rows[own], y[own], 12) for own in (slice(0, 5), slice(5, 12))]
    torch.testing.assert_close(parts[0][0] + parts[1][0], whole)
    torch.testing.assert_close(parts[0][1] + parts[1][1], grad)


@pytest.mark.parametrize("multilabel", [False, True])
def test_rows_outside_get_no_gradient_and_logits_stay(multilabel):
    """Vertices that are not trained on get exactly zero, and the logits are not overwritten."""
    logits, rows, y = case(20, 4, 6, multilabel, 1)
    before = logits.clone()
    _, grad = loss_and_grad(logits, rows, y, 6)
    outside = torch.ones(20, dtype=torch.bool)
    outside[rows] = False
    assert grad[outside].abs().max() == 0
    assert grad[rows].abs().sum(1).min() > 0
    assert torch.equal(logits, before)


@pytest.mark.parametrize("is_squared", [False, True])
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(1, 7), st.integers(0, 20), st.integers(1, 500), st.integers(0, 10**6))
def test_distances_equal_autograd(is_squared, n, columns, num_rows, denominator, seed):
    """Squared and absolute, any rows, against float64 autograd; logits stay as they are."""
    logits, rows, y = case(n, columns, min(n, num_rows), True, seed)
    before = logits.clone()
    loss, grad = distance_and_grad(logits, rows, y, denominator, is_squared=is_squared)
    leaf, of = logits.double().requires_grad_(), F.mse_loss if is_squared else F.l1_loss
    want = of(leaf[rows], y.double(), reduction="sum") / denominator
    torch.testing.assert_close(loss, want.detach(), check_dtype=False, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, torch.autograd.grad(want, leaf)[0], check_dtype=False, rtol=1e-5, atol=1e-5)
    assert logits.equal(before)


@pytest.mark.parametrize("num_rows", [0, 7])
def test_functions_of_rows_are_derived(num_rows):
    """By autograd, also where a caller has switched it off; of no rows the function is not asked."""
    logits, rows, y = case(12, 4, num_rows, False, 2)
    with torch.no_grad():
        found = own_loss_and_grad(logits, rows, y, 9, lambda a, b: F.cross_entropy(a, b, reduction="none"))
    for got, want in zip(found, loss_and_grad(logits, rows, y, 9), strict=True):
        torch.testing.assert_close(got, want)
