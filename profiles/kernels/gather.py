"""Rows of a matrix picked by vertex, in the calling thread and without the interpreter lock."""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor

_WORDS = (np.int64, np.int32, np.int16, np.uint8)


def can_gather(table: Tensor) -> bool:
    """Whether `copy_rows` takes the tensor: dense, contiguous, in host memory, without gradients."""
    return (
        table.device.type == "cpu"
        and table.layout == torch.strided
        and table.dim() > 0
        and table.is_contiguous()
        and not table.requires_grad
    )


def copy_rows(table: Tensor, rows: Tensor, out: Tensor) -> Tensor:
    """`out[i] = table[rows[i]]`; returns `out`.

    Args:
        table: [N, ...] of any element type, as `can_gather` asks.
        rows: int64 [n], each in 0..N - 1.
        out: [n, ...] of the table's type and row shape, contiguous.
    """
    if out.numel():
        word = next(word for word in _WORDS if _fits(table, word) and _fits(out, word))
        _copy_words(_words(table, word), rows.numpy(), _words(out, word))
    return out


def _fits(tensor: Tensor, word: type) -> bool:
    row_bytes = math.prod(tensor.shape[1:]) * tensor.element_size()
    size = np.dtype(word).itemsize
    return row_bytes % size == 0 and tensor.data_ptr() % size == 0


def _words(tensor: Tensor, word: type) -> np.ndarray:
    """The rows as machine words [rows, words a row], so that one kernel copies every element type."""
    return tensor.reshape(-1).view(torch.uint8).numpy().view(word).reshape(len(tensor), -1)


@njit(nogil=True, cache=True)
def _copy_words(table, rows, out):  # pragma: no cover - compiled
    for i in range(len(rows)):
        row = rows[i]
        for j in range(table.shape[1]):
            out[i, j] = table[row, j]
