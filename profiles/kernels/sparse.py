"""Sparse times dense on CPU (MKL) and CUDA (cuSPARSE) through torch's CSR tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.tiles import Tiles, product_


def spmm(matrix: Tensor | Tiles, dense: Tensor) -> Tensor:
    """`matrix [m, k] @ dense [k, width]`, a new tensor [m, width]."""
    out = pool.empty(dense.device, matrix.shape[0], dense.shape[1])
    if isinstance(matrix, Tiles):
        return product_(out, matrix, dense, beta=0)
    if matrix._nnz() == 0:
        return out.zero_()
    return torch.addmm(out, matrix, dense, beta=0, out=out)


def spmm_add_(out: Tensor, matrix: Tensor | Tiles, dense: Tensor) -> Tensor:
    """`out += matrix @ dense` in place; returns `out`."""
    if isinstance(matrix, Tiles):
        return product_(out, matrix, dense, beta=1)
    if matrix._nnz() == 0:
        return out
    return torch.addmm(out, matrix, dense, out=out)
