"""Sparse times dense: own loops and MKL on a CPU, cuSPARSE on CUDA, all of torch's CSR tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.lazily import Lazily
from gnnplan.profiles.kernels.tiles import Tiles, product_

_LEAST_COLUMNS = 64  # of dense rows: MKL is as fast with narrower ones
IN_A_CORE = 2**19  # numbers of all dense rows: fewer lie in a core's cache, where nothing waits for them

_loops = Lazily("gnnplan.profiles.kernels.sum_loops")


def is_looped(num_rows: float, width: float) -> bool:
    """Whether a CPU sums so many dense rows by own loops, which numba compiles, and not by MKL."""
    return width >= _LEAST_COLUMNS and num_rows * width >= IN_A_CORE


def spmm(matrix: Tensor | Tiles, dense: Tensor) -> Tensor:
    """`matrix [m, k] @ dense [k, width]`, a new tensor [m, width]."""
    out = pool.empty(dense.device, matrix.shape[0], dense.shape[1])
    if isinstance(matrix, Tiles):
        return product_(out, matrix, dense, beta=0)
    if matrix._nnz() == 0:
        return out.zero_()
    return _product(out, matrix, dense, beta=0)


def spmm_add_(out: Tensor, matrix: Tensor | Tiles, dense: Tensor) -> Tensor:
    """`out += matrix @ dense` in place; returns `out`."""
    if isinstance(matrix, Tiles):
        return product_(out, matrix, dense, beta=1)
    if matrix._nnz() == 0:
        return out
    return _product(out, matrix, dense, beta=1)


def _product(out: Tensor, matrix: Tensor, dense: Tensor, *, beta: int) -> Tensor:
    if not _fits_loops(matrix, dense, out):
        return torch.addmm(out, matrix, dense, beta=beta, out=out)
    parts = (each.numpy() for each in (matrix.crow_indices(), matrix.col_indices(), matrix.values()))
    _loops.product(*parts, dense.detach().contiguous().numpy(), out.numpy(), adds=beta == 1)
    return out


def _fits_loops(matrix: Tensor, dense: Tensor, out: Tensor) -> bool:
    if out.is_cuda or not is_looped(*dense.shape):
        return False
    return matrix.dtype == dense.dtype == torch.float32 and out.is_contiguous()
