"""How many predictions are right, in a form that can be summed over batches and workers."""

from __future__ import annotations

import torch
from torch import Tensor


def hits(logits: Tensor, y: Tensor) -> Tensor:
    """(right, all) for class ids; (2 TP, 2 TP + FP + FN) for label sets [n, C]: the ratio is micro-F1."""
    if y.dim() == 1:
        return torch.stack([(logits.argmax(1) == y).sum(), torch.tensor(len(y), device=y.device)]).double()
    predicted, actual = logits > 0, y > 0
    true_positives = (predicted & actual).sum()
    return torch.stack([2 * true_positives, predicted.sum() + actual.sum()]).double()
