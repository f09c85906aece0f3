"""Files that hold what lies outside of a worker's memory: the kernel keeps in memory what it has room for.

They have no name, so nothing is left of them whatever ends the worker. Their room is taken at once: a full disk is an
error when a file is made, and not when a page of it is written.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.profiles.kernels.pool import Pool
from gnnplan.profiles.kernels.tiles import Tiles

_PIECE_BYTES = 2**26  # of a file for arrays that stay: few files, for each takes one of the process's handles
_ALIGNED_BYTES = 64


class Outside:
    """What a worker has on disk.

    Args:
        folder: where the files are made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = Pool(self._block)
        self._piece: mmap.mmap | None = None
        self._used_bytes = 0

    def rows(self, num_rows: int, width: int) -> Tensor:
        """Uninitialised float32 rows. Like memory they are used again when nothing looks at them."""
        return torch.from_numpy(self._pool.array(num_rows * width).reshape(num_rows, width))

    def matrix(self, made: Tensor | Tiles) -> Tensor | Tiles:
        """A CSR matrix, or its tiles, in a file for as long as the worker lives."""
        if isinstance(made, Tiles):
            return Tiles(made.shape, tuple((start, stop, self._csr(part)) for start, stop, part in made.parts))
        return self._csr(made)

    def edges(self, made: EdgeBlock) -> EdgeBlock:
        """Edges in a file for as long as the worker lives."""
        return EdgeBlock(*(self._copy(each) for each in vars(made).values()))

    def _csr(self, made: Tensor) -> Tensor:
        pointers, columns, values = map(self._copy, (made.crow_indices(), made.col_indices(), made.values()))
        return torch.sparse_csr_tensor(pointers, columns, values, size=made.shape)

    def _copy(self, tensor: Tensor) -> Tensor:
        array = tensor.numpy()
        if self._piece is None or self._used_bytes + array.nbytes > len(self._piece):
            self._piece, self._used_bytes = self._block(max(_PIECE_BYTES, array.nbytes)), 0
        copy = np.frombuffer(self._piece, array.dtype, array.size, self._used_bytes).reshape(array.shape)
        copy[...] = array
        self._used_bytes += -(-array.nbytes // _ALIGNED_BYTES) * _ALIGNED_BYTES
        return torch.from_numpy(copy)

    def _block(self, size: int) -> mmap.mmap:
        with TemporaryFile(dir=self._folder) as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise RunFailedError(
                    f"{self._folder}: no room for a file of {size:,} bytes ({error.strerror}); "
                    "the plan keeps rows on disk: free some, or run in a folder on another disk"
                ) from None
            return mmap.mmap(file.fileno(), size)
