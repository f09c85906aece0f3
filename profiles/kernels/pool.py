"""Memory for large CPU tensors: taken from the kernel once, then handed out again by exact size.

The C library gives a large buffer back to the kernel when it is freed, so that every epoch faults
its pages in again, and keeps middling ones in a heap that fragments. Here a freed block waits for
the next tensor of its size: an epoch repeats its sizes, so after the first one no page is faulted,
and the most that is held is the sum over sizes of how many live at once, which the planner can
count. Blocks ask for huge pages. On CUDA torch's own caching allocator does this.
"""

from __future__ import annotations

import math
import mmap
import threading
import weakref
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

POOLED_BYTES = 128 * 1024  # as glibc's own limit for leaving its heap
_PAGE_BYTES = mmap.PAGESIZE
_MOST_ROOM = 1.5  # of a block over its tensor, where many sizes are nearly the same


class Pool:
    """Blocks that are handed out by their size, and come back when nothing looks at them any more.

    Args:
        make: a new block of so many bytes.
    """

    def __init__(self, make: Callable[[int], mmap.mmap]) -> None:
        self._make = make
        self._free: dict[int, list[mmap.mmap]] = defaultdict(list)
        self._of_thread = threading.local()

    @property
    def classes(self) -> tuple[int, ...]:
        """Sizes of blocks that smaller tensors get too, as `block_bytes` says; every thread has its own."""
        return getattr(self._of_thread, "classes", ())

    @classes.setter
    def classes(self, classes: tuple[int, ...]) -> None:
        self._of_thread.classes = classes

    def array(self, count: int, dtype: type[np.generic] = np.float32) -> np.ndarray:
        """An uninitialised array of one extent."""
        size = block_bytes(max(count, 1) * np.dtype(dtype).itemsize, self.classes)
        block = self._free[size].pop() if self._free[size] else self._make(size)
        array = np.frombuffer(block, dtype, count)
        # torch keeps the array while any view of its tensor lives.
        weakref.finalize(array, self._free[size].append, block).atexit = False
        return array

    def held_bytes(self) -> int:
        """Bytes of the blocks that wait for their next tensor."""
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def release(self, sizes: Iterable[int]) -> None:
        """Gives waiting blocks of some sizes back to the kernel."""
        for size in sizes:
            self._free[size].clear()

    def release_all(self) -> None:
        """Gives all waiting blocks back to the kernel."""
        self.release(list(self._free))


def block_bytes(num_bytes: int, classes: Sequence[int] = ()) -> int:
    """Bytes of the block that holds a tensor: whole pages; what the pool leaves to torch is as it is.

    Args:
        classes: ascending sizes of blocks. A tensor gets the next larger one where that is not larger by much.
    """
    if num_bytes < POOLED_BYTES:
        return num_bytes
    size = -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
    at = bisect_left(classes, size)
    return classes[at] if at < len(classes) and classes[at] <= _MOST_ROOM * size else size


def classes_of(sizes: Iterable[int]) -> tuple[int, ...]:
    """Few sizes of blocks for tensors of many, ascending: the largest, then the largest that it is too large for."""
    found: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not found or found[-1] > _MOST_ROOM * size:
            found.append(size)
    return tuple(reversed(found))


def empty(device: torch.device, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An uninitialised tensor; a large one on the CPU lies in a pooled block."""
    count = math.prod(shape)
    if device.type != "cpu" or dtype.itemsize * count < POOLED_BYTES:
        return torch.empty(shape, device=device, dtype=dtype)
    if dtype != torch.float32:  # numpy has no bfloat16
        return torch.from_numpy(_memory.array(count * dtype.itemsize, np.uint8)).view(dtype).view(shape)
    return torch.from_numpy(_memory.array(count).reshape(shape))  # shaped here: a view would be one to autograd too


def empty_like(tensor: Tensor) -> Tensor:
    """`empty` of a tensor's device, shape and dtype, contiguous."""
    return empty(tensor.device, *tensor.shape, dtype=tensor.dtype)


def serve(classes: Sequence[int]) -> None:
    """From now on this thread's tensors get blocks of these sizes where they suit."""
    _memory.classes = tuple(classes)


def held_bytes() -> int:
    """Bytes of the blocks of memory that wait for their next tensor."""
    return _memory.held_bytes()


def release(sizes: Iterable[int] | None = None) -> None:
    """Gives waiting blocks of memory back to the kernel, e.g. after a setup whose sizes do not come again.

    Args:
        sizes: bytes of the tensors that do not come again (None: all).
    """
    if sizes is None:
        _memory.release_all()
    else:
        _memory.release({block_bytes(size, _memory.classes) for size in sizes})


def new_block(size: int) -> mmap.mmap:
    """Zeroed memory of `size` bytes from the kernel, in huge pages where it has them."""
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not Linux, or a kernel without huge pages
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


_memory = Pool(new_block)
