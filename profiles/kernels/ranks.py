"""How high edges come among pairs that are none, of the same head."""

from __future__ import annotations

import torch
from torch import Tensor


def ranks(scores: Tensor, heads: Tensor, asked: Tensor, others: Tensor) -> Tensor:
    """float64 [p]: of every pair that is asked for, 1 and how many others of its head score more; equal ones half.

    It is the rank of OGB's evaluator, the mean of the optimistic and the pessimistic one.

    Args:
        scores: [n], of pairs.
        heads: int64 [n], ascending or not.
        asked, others: bool [n].
    """
    _, place = torch.unique(scores, return_inverse=True)
    keys = heads * (len(scores) + 1) + place
    among = keys[others].sort().values
    own = keys[asked]
    end = torch.searchsorted(among, (heads[asked] + 1) * (len(scores) + 1))
    right = torch.searchsorted(among, own, right=True)
    left = torch.searchsorted(among, own)
    return 1 + (end - right).double() + 0.5 * (right - left).double()


def sums_of_ranks(metric: str, ranked: Tensor) -> Tensor:
    """float64 [2]: what a metric adds up over ranks, and how many there are.

    Args:
        metric: `mrr`, the mean of one over the rank, or `hits@K`, the share of ranks up to K.
    """
    name, _, most = metric.partition("@")
    total = (1 / ranked).sum() if name == "mrr" else (ranked <= int(most)).sum()
    return torch.stack([total.double(), torch.tensor(float(len(ranked)), dtype=torch.float64, device=ranked.device)])


def sums_of_splits(metric: str, scores: Tensor, heads: Tensor, told: Tensor) -> Tensor:
    """float64 [S, 2]: `sums_of_ranks` of every split.

    Args:
        scores: [n, 1].
        heads: int64 [n].
        told: [n, S + 1]: whether a pair is an edge of each split; last whether it is none.
    """
    others = told[:, -1] > 0
    of_splits = (ranks(scores[:, 0], heads, told[:, split] > 0, others) for split in range(told.shape[1] - 1))
    return torch.stack([sums_of_ranks(metric, found) for found in of_splits])
