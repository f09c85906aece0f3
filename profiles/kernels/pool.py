"""Memory for large CPU tensors: taken from the kernel once, then handed out again by exact size.

The C library gives a large buffer back to the kernel when it is freed, so that every epoch faults
its pages in again, and keeps middling ones in a heap that fragments. Here a freed block waits for
the next tensor of its size: an epoch repeats its sizes, so after the first one no page is faulted,
and the most that is held is the sum over sizes of how many live at once, which the planner can
count. Blocks ask for huge pages. On CUDA torch's own caching allocator does this.

Where sizes change between epochs, blocks of the largest are reserved before: they serve smaller tensors too, and stay.
"""

from __future__ import annotations

import math
import mmap
import weakref
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

POOLED_BYTES = 128 * 1024  # as glibc's own limit for leaving its heap
_PAGE_BYTES = mmap.PAGESIZE

_free: dict[int, list[mmap.mmap]] = defaultdict(list)
_reserved: dict[int, int] = {}  # blocks by size, in ascending order


def block_bytes(num_bytes: int) -> int:
    """Bytes of the block that holds a tensor: whole pages; what the pool leaves to torch is as it is."""
    return num_bytes if num_bytes < POOLED_BYTES else -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES


def empty(device: torch.device, *shape: int) -> Tensor:
    """An uninitialised float32 tensor; a large one on the CPU lies in a pooled block."""
    count = math.prod(shape)
    if device.type != "cpu" or 4 * count < POOLED_BYTES:
        return torch.empty(shape, device=device)
    block = _block(block_bytes(4 * count))
    array = np.frombuffer(block, np.float32, count)
    # torch keeps the array while any view of the tensor lives. Shaped here: a view would be one to autograd too.
    weakref.finalize(array, _free[len(block)].append, block).atexit = False
    return torch.from_numpy(array.reshape(shape))


def _block(size: int) -> mmap.mmap:
    """A waiting block of this size, else the smallest reserved one that is larger, else a new one."""
    if _free[size]:
        return _free[size].pop()
    sizes = list(_reserved)
    for larger in sizes[bisect_left(sizes, size) :]:
        if _free[larger]:
            return _free[larger].pop()
    return new_block(size)


def empty_like(tensor: Tensor) -> Tensor:
    """`empty` of a tensor's device and shape, contiguous."""
    return empty(tensor.device, *tensor.shape)


def held_bytes() -> int:
    """Bytes of the blocks that wait for their next tensor."""
    return sum(size * len(blocks) for size, blocks in _free.items())


def release(sizes: Iterable[int] | None = None) -> None:
    """Gives waiting blocks back to the kernel, e.g. after a setup whose sizes do not come again.

    Args:
        sizes: bytes of the tensors that do not come again (None: all); what is reserved stays.
    """
    for size in list(_free) if sizes is None else {block_bytes(size) for size in sizes}:
        del _free[size][_reserved.get(size, 0) :]


def reserve(blocks: Mapping[int, int]) -> None:
    """Takes memory from the kernel, page by page, for tensors as large as these or smaller.

    What was reserved before no longer is, and goes with the next `release`.

    Args:
        blocks: how many, by `block_bytes`.
    """
    _reserved.clear()
    _reserved.update(sorted(blocks.items()))
    for size, count in _reserved.items():
        for _ in range(count - len(_free[size])):
            block = new_block(size)
            np.frombuffer(block, np.uint8)[::_PAGE_BYTES] = 0  # a page is there once it is written
            _free[size].append(block)


def new_block(size: int) -> mmap.mmap:
    """Zeroed memory of `size` bytes from the kernel, in huge pages where it has them."""
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not Linux, or a kernel without huge pages
        block.madvise(mmap.MADV_HUGEPAGE)
    return block
