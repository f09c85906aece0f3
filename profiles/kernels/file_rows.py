"""Rows of a mapped file that lie all over the place: their pages are asked of the disk at once, and no others.

A page that is missing when it is touched is waited for alone, and the kernel reads what lies around it too. Rows that
were asked for before are read side by side, and memory is left for the pages that are used.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

PAGE_BYTES = mmap.PAGESIZE
_PIECE_BYTES = 2**17  # of a longer range the kernel may read the beginning alone: as much as it reads ahead


def page_runs(rows: np.ndarray, row_bytes: int, offset_bytes: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pages that rows lie on, as runs of consecutive ones: int64 [R] first pages, and those after their last.

    Args:
        rows: int64 [n], ascending; where they are not, a page may be in several runs.
        offset_bytes: of row 0 on page 0.
    """
    begins = rows * row_bytes + offset_bytes
    first, last = begins // PAGE_BYTES, (begins + max(row_bytes, 1) - 1) // PAGE_BYTES
    cuts = np.flatnonzero((first[1:] > last[:-1] + 1) | (first[1:] < first[:-1])) + 1
    starts, stops = np.append(0, cuts), np.append(cuts, len(rows))
    return first[starts[starts < len(rows)]], last[stops[stops > 0] - 1] + 1


@contextmanager
def asked_for(x: Tensor, rows: Tensor) -> Iterator[None]:
    """Asks for rows of a matrix in a mapped file, which are read or added to within.

    Args:
        x: [N, width] on the CPU, contiguous.
        rows: int64 [n].
    """
    if not x.is_contiguous() or not len(rows):
        yield
        return
    begin, end = x.data_ptr() // PAGE_BYTES * PAGE_BYTES, x.data_ptr() + x.nbytes
    _advise(begin, end - begin, mmap.MADV_RANDOM)  # nothing is read beside what is asked for
    try:
        runs = page_runs(rows.numpy(), x.shape[1] * x.element_size(), x.data_ptr() - begin)
        for first, stop in zip(*(each.tolist() for each in runs), strict=True):
            _ask(begin + first * PAGE_BYTES, begin + stop * PAGE_BYTES)
        yield
    finally:
        _advise(begin, end - begin, mmap.MADV_NORMAL)


def _ask(begin: int, end: int) -> None:
    for address in range(begin, end, _PIECE_BYTES):
        _advise(address, min(_PIECE_BYTES, end - address), mmap.MADV_WILLNEED)


def _advise(address: int, num_bytes: int, advice: int) -> None:
    """Advice only: where the kernel refuses it, pages come one by one."""
    _madvise()(address, num_bytes, advice)


@cache
def _madvise() -> ctypes._CFuncPtr:  # type: ignore[name-defined]
    function = ctypes.CDLL(None).madvise
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function
