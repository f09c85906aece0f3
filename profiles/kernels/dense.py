"""Dense products and row gathers whose results lie in pooled memory."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a [n, k] @ b [k, m]`, a new tensor [n, m]."""
    return torch.mm(a, b, out=pool.empty(a.device, a.shape[0], b.shape[1], dtype=a.dtype))


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """`x[rows]`, a new tensor [len(rows), width]."""
    return torch.index_select(x, 0, rows, out=pool.empty(x.device, len(rows), x.shape[1], dtype=x.dtype))


def transposed(x: Tensor) -> Tensor:
    """The transpose of `x` [n, m], contiguous, a new tensor [m, n]."""
    return pool.empty(x.device, *x.t().shape).copy_(x.t())
