"""A sparse matrix cut into tiles of consecutive columns, so that the dense rows a tile gathers stay in a core's cache.

A product goes tile by tile. Each row of the result is then read and written once a tile, which pays where a tile adds
several entries to it, and the dense rows as a whole fit no cache. `python -m benchmarks tiles` has both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.profiles.kernels.csr import csr_tensor

LARGE = 2**23  # numbers of all dense rows, 32 MiB: fewer lie in the cache that cores share, and need no tiles
_MIN_ROWS = 4096  # dense rows of a tile: 2 MiB of 128 columns
_MIN_ENTRIES = 8  # that a tile adds to a row of the result, on average
_MIN_DEGREE = 24  # entries a row, on average


@dataclass(frozen=True)
class Tiles:
    """A matrix on a CPU.

    Args:
        parts: of every tile the first column, the one after its last, and the CSR tensor of these columns.
    """

    shape: tuple[int, int]
    parts: tuple[tuple[int, int, Tensor], ...]


def num_tiles(num_rows: int, num_columns: int, num_entries: int, width: float) -> int:
    """Tiles into which a matrix is cut that is multiplied with dense rows of at most `width` columns (1: it is not)."""
    if num_columns * width < LARGE or not num_rows or num_entries < _MIN_DEGREE * num_rows:
        return 1
    least = max(_MIN_ROWS, _MIN_ENTRIES * num_rows * num_columns / num_entries)
    return max(1, int(-(-num_columns // least)))


def on_device(matrix: sp.csr_matrix, back: bool, width: float, device: torch.device) -> Tensor | Tiles:
    """A matrix, or with `back` its transpose, as products with dense rows of at most `width` columns take it.

    Only on a CPU it may be cut: a GPU's kernels have other caches.
    """
    num_rows, num_columns = matrix.shape[::-1] if back else matrix.shape
    count = num_tiles(num_rows, num_columns, matrix.nnz, width) if device.type == "cpu" else 1
    if count == 1:
        return csr_tensor(matrix.T.tocsr() if back else matrix, device)
    return transposed_in_tiles(matrix, count) if back else in_tiles(matrix, count)


def in_tiles(matrix: sp.csr_matrix, count: int) -> Tiles:
    """A matrix in so many tiles."""
    columns = matrix.tocsc()
    parts = ((start, stop, csr_tensor(columns[:, start:stop].tocsr())) for start, stop in _ranges(matrix, 1, count))
    return Tiles(matrix.shape, tuple(parts))


def transposed_in_tiles(matrix: sp.csr_matrix, count: int) -> Tiles:
    """The transpose of a matrix in so many tiles."""
    parts = ((start, stop, csr_tensor(matrix[start:stop].T.tocsr())) for start, stop in _ranges(matrix, 0, count))
    return Tiles(matrix.shape[::-1], tuple(parts))


def product_(out: Tensor, tiles: Tiles, dense: Tensor, *, beta: int) -> Tensor:
    """`out = beta * out + tiles [m, k] @ dense [k, width]` in place, where `beta` is 0 or 1; returns `out`."""
    for start, stop, part in tiles.parts:
        if part._nnz():
            torch.addmm(out, part, dense[start:stop], beta=beta, out=out)
            beta = 1
    return out if beta else out.zero_()


def _ranges(matrix: sp.csr_matrix, axis: int, count: int) -> Iterator[tuple[int, int]]:
    """As even as can be."""
    extent = matrix.shape[axis]
    for number in range(count):
        yield extent * number // count, extent * (number + 1) // count
