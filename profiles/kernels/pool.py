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
import weakref
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

POOLED_BYTES = 128 * 1024  # as glibc's own limit for leaving its heap
_PAGE_BYTES = mmap.PAGESIZE

_free: dict[int, list[mmap.mmap]] = defaultdict(list)


def block_bytes(num_bytes: int) -> int:
    """Bytes of the block that holds a tensor: whole pages; what the pool leaves to torch is as it is."""
    return num_bytes if num_bytes < POOLED_BYTES else -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES


def empty(device: torch.device, *shape: int) -> Tensor:
    """An uninitialised float32 tensor; a large one on the CPU lies in a pooled block."""
    count = math.prod(shape)
    if device.type != "cpu" or 4 * count < POOLED_BYTES:
        return torch.empty(shape, device=device)
    size = block_bytes(4 * count)
    block = _free[size].pop() if _free[size] else new_block(size)
    array = np.frombuffer(block, np.float32, count)
    # torch keeps the array while any view of the tensor lives. Shaped here: a view would be one to autograd too.
    weakref.finalize(array, _free[len(block)].append, block).atexit = False
    return torch.from_numpy(array.reshape(shape))


def empty_like(tensor: Tensor) -> Tensor:
    """`empty` of a tensor's device and shape, contiguous."""
    return empty(tensor.device, *tensor.shape)


def held_bytes() -> int:
    """Bytes of the blocks that wait for their next tensor."""
    return sum(size * len(blocks) for size, blocks in _free.items())


def release(sizes: Iterable[int] | None = None) -> None:
    """Gives waiting blocks back to the kernel, e.g. after a setup whose sizes do not come again.

    Args:
        sizes: bytes of the tensors that do not come again (None: all).
    """
    for size in list(_free) if sizes is None else {block_bytes(size) for size in sizes}:
        _free[size].clear()


def new_block(size: int) -> mmap.mmap:
    """Zeroed memory of `size` bytes from the kernel, in huge pages where it has them."""
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not Linux, or a kernel without huge pages
        block.madvise(mmap.MADV_HUGEPAGE)
    return block
