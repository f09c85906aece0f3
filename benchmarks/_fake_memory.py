"""Bytes that tensors take on a device that is only pretended: counted as CUDA's caching allocator counts them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

BLOCK_BYTES = 512
"""CUDA's allocator hands out multiples of it (`kMinBlockSize` in torch's CUDACachingAllocator)."""


@dataclass
class Memory:
    """What lives on a device.

    Args:
        freed: told of every storage that ends.
        live_bytes, peak_bytes: alive now, and the most that were since `peak_bytes` was last set.
    """

    freed: Callable[[int], None] = lambda _: None
    live_bytes: int = 0
    peak_bytes: int = 0
    _held: set[int] = field(default_factory=set)

    def hold(self, tensor: Tensor) -> None:
        """Counts the storages of a tensor that are not counted yet; they end by themselves."""
        for storage in storages(tensor):
            key, size = storage._cdata, rounded_bytes(storage.nbytes())
            if key not in self._held:
                self._held.add(key)
                self.live_bytes += size
                self.peak_bytes = max(self.peak_bytes, self.live_bytes)
                weakref.finalize(storage, self._free, key, size).atexit = False

    def _free(self, key: int, size: int) -> None:
        self._held.remove(key)
        self.live_bytes -= size
        self.freed(key)


def rounded_bytes(num_bytes: int) -> int:
    """Of the block that holds so many."""
    return -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES


def storages(tensor: Tensor) -> Iterator[torch.UntypedStorage]:
    """Of a dense tensor one, of a CSR matrix three."""
    if tensor.layout == torch.sparse_csr:
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        yield from (part.untyped_storage() for part in parts)
    else:
        yield tensor.untyped_storage()
