"""GAT's attention step as a whole: scores, attention, and the average over heads in the last layer.

Shapes: n target rows, m source rows (the targets first), E edges, H heads, C channels a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.attention import EdgeBlock, attention_backward, attention_forward


@dataclass(frozen=True, slots=True)
class Scores:
    """What the backward pass needs: row scores [m, H] and [n, H], coefficients [E, H]."""

    source: Tensor
    target: Tensor
    alpha: Tensor


def attend_forward(
    edges: EdgeBlock, q: Tensor, att_source: Tensor, att_target: Tensor, *, averages: bool
) -> tuple[Tensor, Scores]:
    """q [m, H * C], att_* [1, H, C] -> [n, H * C], or [n, C] averaged over heads."""
    heads, num_targets = att_source.shape[1], len(edges.indptr) - 1
    h = q.view(len(q), heads, -1)
    source, target = _row_scores(h, att_source), _row_scores(h[:num_targets], att_target)
    out = pool.empty(q.device, num_targets, q.shape[1])
    per_head = out.view(num_targets, heads, -1)
    alpha = attention_forward(edges, h, source, target, per_head)
    if averages:
        out = torch.mean(per_head, 1, out=pool.empty(q.device, num_targets, h.shape[2]))
    return out, Scores(source, target, alpha)


def attend_backward(
    edges: EdgeBlock,
    q: Tensor,
    att_source: Tensor,
    att_target: Tensor,
    scores: Scores,
    grad: Tensor,
    *,
    averages: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at q and at both attention vectors from `grad` at the output."""
    heads, num_targets = att_source.shape[1], len(edges.indptr) - 1
    h = q.view(len(q), heads, -1)
    if averages:
        spread = pool.empty(q.device, num_targets, *h.shape[1:])
        grad = torch.div(grad[:, None, :].expand_as(spread), heads, out=spread)
    grad = grad.reshape(num_targets, heads, -1)
    grad_h, grad_source, grad_target = attention_backward(edges, h, scores.source, scores.target, scores.alpha, grad)
    grad_h.addcmul_(grad_source[:, :, None], att_source)
    grad_h[:num_targets].addcmul_(grad_target[:, :, None], att_target)
    return grad_h.view_as(q), _score_sums(h, grad_source), _score_sums(h[:num_targets], grad_target)


def _row_scores(h: Tensor, att: Tensor) -> Tensor:
    """[rows, H] inner products of every head's row with its attention vector."""
    product = torch.mul(h, att, out=pool.empty_like(h))
    return torch.sum(product, -1, out=pool.empty(h.device, *h.shape[:2]))


def _score_sums(h: Tensor, weight: Tensor) -> Tensor:
    """[1, H, C] sums of the rows, weighted [rows, H]; a product a head, for einsum would copy `h`."""
    return torch.stack([h[:, head].t() @ weight[:, head] for head in range(h.shape[1])])[None]
