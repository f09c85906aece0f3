"""The training loss and its gradient in one pass over the training rows."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows


def loss_and_grad(logits: Tensor, rows: Tensor, y: Tensor, denominator: int) -> tuple[Tensor, Tensor]:
    """Summed loss over `rows` divided by `denominator`, and its gradient at all logits.

    Args:
        logits: [n, C].
        rows: int64 [t], the training rows.
        y: int64 [t] class ids (cross-entropy), or float [t, C] label sets (binary cross-entropy).
        denominator: training vertices of the whole graph (times C for label sets).

    Returns:
        A scalar and the gradient [n, C], zero outside `rows`.
    """
    chosen = gather_rows(logits, rows)
    if y.dim() == 2:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(chosen, y, reduction="sum")
        grad_chosen = chosen.sigmoid_().sub_(y)
    else:
        log_probability = torch.log_softmax(chosen, 1, out=pool.empty_like(chosen))
        loss = torch.nn.functional.nll_loss(log_probability, y, reduction="sum")
        grad_chosen = log_probability.exp_()
        grad_chosen[torch.arange(len(y), device=y.device), y] -= 1
    grad = pool.empty_like(logits).zero_().index_copy_(0, rows, grad_chosen.div_(denominator))
    return loss / denominator, grad
