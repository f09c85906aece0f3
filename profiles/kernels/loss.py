"""The training loss and its gradient in one pass over the training rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows


def loss_and_grad(logits: Tensor, rows: Tensor | None, y: Tensor, denominator: int) -> tuple[Tensor, Tensor]:
    """Summed loss over `rows` divided by `denominator`, and its gradient at all logits.

    Args:
        logits: [n, C].
        rows: int64 [t], the training rows (None: all).
        y: int64 [t] class ids (cross-entropy), or float [t, C] label sets (binary cross-entropy).
        denominator: training vertices of the whole graph (times C for label sets).

    Returns:
        A scalar and the gradient [n, C], zero outside `rows`.
    """
    chosen = pool.empty_like(logits).copy_(logits) if rows is None else gather_rows(logits, rows)
    if y.dim() == 2:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(chosen, y, reduction="sum")
        grad_chosen = chosen.sigmoid_().sub_(y)
    else:
        log_probability = torch.log_softmax(chosen, 1, out=pool.empty_like(chosen))
        loss = torch.nn.functional.nll_loss(log_probability, y, reduction="sum")
        grad_chosen = log_probability.exp_()
        grad_chosen[torch.arange(len(y), device=y.device), y] -= 1
    grad_chosen.div_(denominator)
    if rows is None:
        return loss / denominator, grad_chosen
    return loss / denominator, pool.empty_like(logits).zero_().index_copy_(0, rows, grad_chosen)


def distance_and_grad(
    logits: Tensor, rows: Tensor, y: Tensor, denominator: int, *, is_squared: bool
) -> tuple[Tensor, Tensor]:
    """Squared or absolute distances from targets, summed over `rows` and columns, as `loss_and_grad` has it.

    Args:
        y: float [t, C].
    """
    difference = gather_rows(logits, rows).sub_(y)
    if is_squared:
        loss = torch.linalg.vector_norm(difference).square()
        difference.mul_(2)
    else:
        loss = torch.linalg.vector_norm(difference, 1)
        difference.sign_()
    grad = pool.empty_like(logits).zero_().index_copy_(0, rows, difference.div_(denominator))
    return loss / denominator, grad


def own_loss_and_grad(
    logits: Tensor, rows: Tensor, y: Tensor, denominator: int, of_rows: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """A function's losses of rows, summed, and their gradient by autograd, as `loss_and_grad` has it.

    Args:
        of_rows: takes the logits [t, C] of `rows` and `y`, and gives [t]. It is not called where there are none.
    """
    grad = pool.empty_like(logits).zero_()
    if not len(rows):
        return logits.new_zeros(()), grad
    with torch.enable_grad():
        chosen = gather_rows(logits, rows).requires_grad_()
        loss = of_rows(chosen, y).sum() / denominator
        (grad_chosen,) = torch.autograd.grad(loss, chosen)
    return loss.detach(), grad.index_copy_(0, rows, grad_chosen)
