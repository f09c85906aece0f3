"""Sums and activations of rows in bfloat16, which take half the bytes; numbers are added up in float32."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import matmul
from gnnplan.profiles.kernels.lazily import Lazily
from gnnplan.profiles.kernels.sparse import spmm, spmm_add_

HALF = torch.bfloat16
NARROW = 32  # columns: rows of fewer are summed as float32, whose library is faster there by more than copies take
_MOST_PARTS = 64  # of rows whose sums are made apart

_loops = Lazily("gnnplan.profiles.kernels.half_loops")


def bits(x: Tensor) -> np.ndarray:
    """uint16 of the same memory, of a contiguous bfloat16 tensor."""
    return x.view(torch.int16).numpy().view(np.uint16)


def half_product(matrix: Tensor, rows: Tensor) -> Tensor:
    """`matrix [m, k] @ rows [k, width]`, a new bfloat16 tensor [m, width] of a float32 CSR matrix on a CPU."""
    out = pool.empty(rows.device, matrix.shape[0], rows.shape[1], dtype=HALF)
    if rows.shape[1] < NARROW:
        return out.copy_(spmm(matrix, _widened(rows)))
    return _product(out, matrix, rows, adds=False)


def half_product_add_(out: Tensor, matrix: Tensor, rows: Tensor) -> Tensor:
    """`out += matrix @ rows` in place; returns `out`."""
    if rows.shape[1] < NARROW:
        return out.copy_(spmm_add_(_widened(out), matrix, _widened(rows)))
    return _product(out, matrix, rows, adds=True)


def _widened(x: Tensor) -> Tensor:
    return pool.empty(x.device, *x.shape).copy_(x)


def _product(out: Tensor, matrix: Tensor, rows: Tensor, *, adds: bool) -> Tensor:
    parts = (each.numpy() for each in (matrix.crow_indices(), matrix.col_indices(), matrix.values()))
    _loops.product(*parts, bits(rows.contiguous()), bits(out), adds)
    return out


def gram_of_halves(grad: Tensor, x: Tensor) -> Tensor:
    """`grad.T [m, n] @ x [n, k]`, a new float32 tensor; it was rounded once."""
    product = matmul(grad.t(), x)
    return pool.empty(x.device, *product.shape).copy_(product)


def add_rows_(out: Tensor, index: Tensor, x: Tensor) -> Tensor:
    """`out[index] += x` in place, of bfloat16 rows on a CPU; returns out."""
    _loops.add_rows(bits(out), index.numpy(), bits(x.contiguous()))
    return out


def column_sums(x: Tensor) -> Tensor:
    """float32 [1, width] of bfloat16 rows [n, width] on a CPU."""
    parts = torch.empty(max(1, min(_MOST_PARTS, len(x))), x.shape[1])
    _loops.column_sums(bits(x), parts.numpy())
    return parts.sum(0, keepdim=True)


def add_bias_(z: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """`z += bias` in place, with ReLU where it is asked for, on a CPU; returns z."""
    _loops.add_bias(bits(z), bias.numpy(), relu)
    return z


def drop_halves_(z: Tensor, bias: Tensor, vertices: Tensor, first: int, whole: int, key: int, **how) -> Tensor:
    """As `gnnplan.profiles.kernels.activation.activate_` with dropout, in place, on a CPU."""
    numbers = np.uint64(key), how["threshold"], np.float32(how["scale"]), how["relu"]
    _loops.relu_dropout(bits(z), bias.numpy(), vertices.numpy(), first, whole, *numbers)
    return z
