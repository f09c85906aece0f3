"""What of predictions can be summed over batches and workers: a metric is made of the sums."""

from __future__ import annotations

import torch
from torch import Tensor


def sums_of(metric: str, logits: Tensor, y: Tensor) -> Tensor:
    """float64 [2 k]: k numerators, then their denominators.

    Of accuracy right rows and all. Of F1 2 TP and 2 TP + FP + FN, of all columns together or of each (`f1_macro`). Of
    errors their sum or their squares' sum, and how many there are.

    Args:
        logits: [t, C].
        y: int64 [t] class ids, or float [t, C].
    """
    if metric == "accuracy":
        return torch.stack([(logits.argmax(1) == y).sum(), torch.tensor(len(y), device=y.device)]).double()
    if metric in ("mae", "rmse"):
        error = (logits - y).double()
        total = error.abs().sum() if metric == "mae" else error.square().sum()
        return torch.stack([total, total.new_tensor(y.numel())])
    right, said, actual = _counts_of_classes(logits, y) if y.dim() == 1 else _counts_of_sets(logits, y)
    above, below = 2 * right, said + actual
    if metric == "f1_micro":
        above, below = above.sum(0, keepdim=True), below.sum(0, keepdim=True)
    return torch.cat([above, below]).double()


def scores_of(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """What rows are ranked by, and whether they belong, [t, C] each: of classes one against all others."""
    if y.dim() == 2:
        return logits, y.to(logits)
    return logits.softmax(1), torch.nn.functional.one_hot(y, logits.shape[1]).to(logits)


def _counts_of_classes(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    said, width = logits.argmax(1), logits.shape[1]
    return tuple(torch.bincount(each, minlength=width) for each in (y[said == y], said, y))  # type: ignore[return-value]


def _counts_of_sets(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    said, actual = logits > 0, y > 0
    return (said & actual).sum(0), said.sum(0), actual.sum(0)
