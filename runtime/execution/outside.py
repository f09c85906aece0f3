"""What lies outside of a worker's own memory: in files, or page-locked in the memory of the host.

The kernel keeps in memory what of files it has room for. They have no name, so nothing is left of them whatever ends
the worker. Their room is taken at once: a full disk is an error when a file is made, and not when a page of it is
written.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.profiles.kernels.pool import Pool
from gnnplan.profiles.kernels.tiles import Tiles
from gnnplan.runtime.lockable_memory import LockableMemory
from gnnplan.runtime.sampling.page_lock import page_lock

_PIECE_BYTES = 2**26  # for arrays that stay: few files, for each takes one of the process's handles
_ALIGNED_BYTES = 64


class Outside:
    """What a worker has there.

    Args:
        block: makes so many bytes of it.
    """

    def __init__(self, block: Callable[[int], mmap.mmap]) -> None:
        self._block = block
        self._pool = Pool(block)
        self._piece: mmap.mmap | None = None
        self._used_bytes = 0

    def rows(self, num_rows: int, width: int) -> Tensor:
        """Uninitialised float32 rows. Like memory they are used again when nothing looks at them."""
        return torch.from_numpy(self._pool.array(num_rows * width).reshape(num_rows, width))

    def matrix(self, made: Tensor | Tiles) -> Tensor | Tiles:
        """A CSR matrix, or its tiles, there for as long as the worker lives."""
        if isinstance(made, Tiles):
            return Tiles(made.shape, tuple((start, stop, self._csr(part)) for start, stop, part in made.parts))
        return self._csr(made)

    def edges(self, made: EdgeBlock) -> EdgeBlock:
        """Edges there for as long as the worker lives."""
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


def on_disk(folder: Path) -> Outside:
    """In files of a folder."""

    def block(size: int) -> mmap.mmap:
        with TemporaryFile(dir=folder) as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise RunFailedError(
                    f"{folder}: no room for a file of {size:,} bytes ({error.strerror}); "
                    "the plan keeps rows on disk: free some, or run in a folder on another disk"
                ) from None
            return mmap.mmap(file.fileno(), size)

    return Outside(block)


def in_host_memory(device: torch.device) -> Outside:
    """Page-locked, so that a GPU copies it directly; where the driver will not lock it, copies are staged.

    Args:
        device: that takes rows of it; a CPU needs no lock.
    """

    def block(size: int) -> mmap.mmap:
        try:
            memory = LockableMemory(-1, size)
        except OSError as error:
            raise RunFailedError(
                f"no room for {size:,} bytes in the host's memory ({error.strerror}), where the plan keeps rows"
            ) from None
        if device.type == "cuda":
            page_lock(memory)
        return memory

    return Outside(block)
