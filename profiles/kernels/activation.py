"""Bias, ReLU and dropout in one pass; dropout is a pure function of what it drops.

Whether an element is kept depends only on (seed, epoch, layer, global vertex, feature), so the
same elements are dropped for every number of workers and every partition.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels.counter import GOLDEN, MASK_64, MIX_1, MIX_2, chained_key
from gnnplan.profiles.kernels.halves import HALF, add_bias_, drop_halves_
from gnnplan.profiles.kernels.lazily import Lazily

_loops = Lazily("gnnplan.profiles.kernels.activation_loops")

HASHED_AT_ONCE = 2**22
"""Elements whose hashes live together on CUDA: 64 MiB."""


def dropout_key(seed: int, epoch: int, layer: int) -> int:
    """A 64-bit key from (seed, epoch, layer)."""
    return chained_key(seed, epoch, layer)


def keep_threshold(probability: float) -> int:
    """An element is kept where the top 32 bits of its hash are at least this."""
    return int(probability * 2**32)


def keep_mask(key: int, rows: Tensor, columns: Tensor, width: int, probability: float) -> Tensor:
    """Bool mask of the elements (row, column) that dropout keeps, in torch integer arithmetic.

    `rows` holds global vertex ids and broadcasts against `columns`; `width` is the number of
    columns of the whole matrix. Two int64 tensors as large as the mask live at once, and no more.
    """

    def signed(value: int) -> int:
        return value - 2**64 if value >= 2**63 else value

    def shifted(z: Tensor, bits: int) -> Tensor:
        return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)  # logical: int64 shifts in the sign

    z = rows * width + columns
    z += signed((key + GOLDEN) & MASK_64)
    z.bitwise_xor_(shifted(z, 30)).mul_(signed(MIX_1))
    z.bitwise_xor_(shifted(z, 27)).mul_(signed(MIX_2))
    z.bitwise_xor_(shifted(z, 31))
    z >>= 32
    z.bitwise_and_((1 << 32) - 1)
    return z >= keep_threshold(probability)


def activate_(
    z: Tensor,
    bias: Tensor,
    *,
    relu: bool,
    dropout: float = 0.0,
    key: int = 0,
    vertices: Tensor | None = None,
    columns: tuple[int, int] | None = None,
) -> Tensor:
    """`z = dropout(relu(z + bias))` in place; z [n, width], bias [width], vertices int64 [n].

    Args:
        columns: the number of the first one, and of how many in all, where z has some of a matrix's columns.
    """
    if dropout == 0.0 and z.dtype == HALF:
        return add_bias_(z, bias, relu=relu)
    if dropout == 0.0:
        z += bias
        return z.relu_() if relu else z
    assert vertices is not None
    first, whole = columns or (0, z.shape[1])
    scale = 1.0 / (1.0 - dropout)
    if z.dtype == HALF:
        how = {"threshold": keep_threshold(dropout), "scale": scale, "relu": relu}
        return drop_halves_(z, bias, vertices, first, whole, key, **how)
    if z.device.type == "cpu":
        rows, threshold = (z.numpy(), bias.numpy(), vertices.numpy()), keep_threshold(dropout)
        _loops.relu_dropout(*rows, first, whole, np.uint64(key), threshold, np.float32(scale), relu)
        return z
    z += bias
    if relu:
        z.relu_()
    _drop(z, vertices, first, whole, key, dropout)
    return z.mul_(scale)


def _drop(z: Tensor, vertices: Tensor, first: int, whole: int, key: int, probability: float) -> None:
    """Some rows at a time, so that int64 hashes of large tensors take no more memory than those of middling ones."""
    columns, num_rows = torch.arange(first, first + z.shape[1], device=z.device), rows_at_once(z.shape[1])
    for start in range(0, len(z), num_rows):
        part = slice(start, start + num_rows)
        z[part].mul_(keep_mask(key, vertices[part, None], columns, whole, probability))


def rows_at_once(width: int) -> int:
    """Of this width, whose elements are hashed together on CUDA."""
    return max(1, HASHED_AT_ONCE // max(width, 1))


def activate_backward_(grad: Tensor, out: Tensor, *, relu: bool, dropout: float = 0.0) -> Tensor:
    """Gradient at `z`, in place on the gradient at `out`; a zero of `out` was cut by ReLU or dropped."""
    if not relu:
        return grad
    torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=grad)
    return grad.mul_(1.0 / (1.0 - dropout)) if dropout else grad
