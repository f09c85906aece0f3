"""Rows of several heads [n, H * C]: products with a vector a head, and their mean over heads."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool


def head_dots(x: Tensor, vector: Tensor, heads: int) -> Tensor:
    """[n, H]: the inner product of every row of `x` [n, H * C] with `vector` (H * C numbers), in every head."""
    h, v = _of_heads(x, heads), vector.view(heads, -1)
    out = pool.empty(x.device, len(x), heads)
    for head in range(heads):
        out[:, head] = h[:, head] @ v[head]
    return out


def head_dots_to_rows(grad: Tensor, vector: Tensor, base: Tensor | None = None) -> Tensor:
    """[n, H * C]: `vector` (H * C numbers) times `grad` [n, H] in every head, added to `base` in place."""
    heads = grad.shape[1]
    v = vector.view(1, heads, -1)
    if base is not None:
        _of_heads(base, heads).addcmul_(grad[:, :, None], v)
        return base
    out = pool.empty(grad.device, len(grad), vector.numel())
    torch.mul(grad[:, :, None], v, out=_of_heads(out, heads))
    return out


def head_dots_to_vector(grad: Tensor, x: Tensor) -> Tensor:
    """[H, C]: the sum of the rows of `x` [n, H * C] weighted by `grad` [n, H], in every head.

    One product makes the sums of every head by the weights of each, of which those by its own are taken: `x` is read
    once and in order, which a product a head does not.
    """
    heads = grad.shape[1]
    of_all = (grad.t() @ x).view(heads, heads, -1)
    return of_all.diagonal(0, 0, 1).t().contiguous()


def average_heads(x: Tensor, heads: int) -> Tensor:
    """[n, C]: the mean over heads of x [n, H * C]."""
    return torch.mean(_of_heads(x, heads), 1, out=pool.empty(x.device, len(x), x.shape[1] // heads))


def spread_heads(x: Tensor, heads: int) -> Tensor:
    """[n, H * C]: the gradients at heads from those [n, C] at their mean."""
    out = pool.empty(x.device, len(x), heads, x.shape[1])
    return torch.div(x[:, None, :].expand_as(out), heads, out=out).view(len(x), heads * x.shape[1])


def _of_heads(x: Tensor, heads: int) -> Tensor:
    return x.view(len(x), heads, x.shape[1] // heads)
