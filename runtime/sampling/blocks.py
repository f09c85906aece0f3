"""Memory for the tensors of batches: a block comes back when the batch is dropped, and the next one takes it.

Batches are large and short-lived. The C library would give each tensor back to the kernel and fault
its pages in again for the next, which costs as much as copying the rows.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool


class BatchBlocks:
    """Makes uninitialised CPU tensors; any thread may ask.

    Sizes are rounded up to eighths of a power of two, so that batches of about the same size fit
    each other's blocks.

    Args:
        num_waiting: blocks of one size that may wait for their next tensor; more are let go.
        pin_memory: page-locked memory, from torch's own cache of it, which knows when a copy to a
            device has ended.
    """

    def __init__(self, num_waiting: int, *, pin_memory: bool = False) -> None:
        self._num_waiting = num_waiting
        self._pin_memory = pin_memory
        self._waiting: dict[int, list[mmap.mmap]] = defaultdict(list)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor of that shape and type; a small one is torch's."""
        shape = tuple(shape)
        num_bytes = math.prod(shape) * dtype.itemsize
        if self._pin_memory or num_bytes < pool.POOLED_BYTES:
            return torch.empty(shape, dtype=dtype, pin_memory=self._pin_memory)
        size = rounded_up(num_bytes)
        try:
            block = self._waiting[size].pop()
        except IndexError:
            block = pool.new_block(size)
        array = np.frombuffer(block, np.uint8, num_bytes)
        # torch keeps the array while any view of the tensor lives.
        weakref.finalize(array, _give_back, self._waiting[size], block, self._num_waiting).atexit = False
        # Only the storage of `bytes_` is kept: the tensor made from it is no view to autograd.
        bytes_ = torch.from_numpy(array)
        return torch.empty(0, dtype=dtype).set_(bytes_.untyped_storage(), 0, shape)  # type: ignore[call-overload]

    def waiting_bytes(self) -> int:
        """Bytes of the blocks that wait for their next tensor."""
        return sum(size * len(blocks) for size, blocks in self._waiting.items())


def rounded_up(num_bytes: int) -> int:
    """The next eighth of a power of two, in whole pages."""
    step = max(mmap.PAGESIZE, 1 << max(0, num_bytes.bit_length() - 4))
    return -(-num_bytes // step) * step


def _give_back(waiting: list[mmap.mmap], block: mmap.mmap, num_waiting: int) -> None:
    if len(waiting) < num_waiting:
        waiting.append(block)
