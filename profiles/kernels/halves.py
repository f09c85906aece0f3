"""Sums and activations of rows in bfloat16, which take half the bytes; numbers are added up in float32."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import matmul
from gnnplan.profiles.kernels.lazily import Lazily

HALF = torch.bfloat16
_loops = Lazily("gnnplan.profiles.kernels.half_loops")


def bits(x: Tensor) -> np.ndarray:
    """uint16 of the same memory, of a contiguous bfloat16 tensor."""
    return x.view(torch.int16).numpy().view(np.uint16)


def half_product(matrix: Tensor, rows: Tensor) -> Tensor:
    """`matrix [m, k] @ rows [k, width]`, a new bfloat16 tensor [m, width] of a float32 CSR matrix on a CPU."""
    return _product(pool.empty(rows.device, matrix.shape[0], rows.shape[1], dtype=HALF), matrix, rows, adds=False)


def half_product_add_(out: Tensor, matrix: Tensor, rows: Tensor) -> Tensor:
    """`out += matrix @ rows` in place; returns `out`."""
    return _product(out, matrix, rows, adds=True)


def _product(out: Tensor, matrix: Tensor, rows: Tensor, *, adds: bool) -> Tensor:
    parts = (each.numpy() for each in (matrix.crow_indices(), matrix.col_indices(), matrix.values()))
    _loops.product(*parts, bits(rows.contiguous()), bits(out), adds)
    return out


def gram_of_halves(grad: Tensor, x: Tensor) -> Tensor:
    """`grad.T [m, n] @ x [n, k]`, a new float32 tensor; it was rounded once."""
    product = matmul(grad.t(), x)
    return pool.empty(x.device, *product.shape).copy_(product)


def drop_halves_(z: Tensor, bias: Tensor, vertices: Tensor, first: int, whole: int, key: int, **how) -> Tensor:
    """As `gnnplan.profiles.kernels.activation.activate_` with dropout, in place, on a CPU."""
    numbers = np.uint64(key), how["threshold"], np.float32(how["scale"]), how["relu"]
    _loops.relu_dropout(bits(z), bias.numpy(), vertices.numpy(), first, whole, *numbers)
    return z
