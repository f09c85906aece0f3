"""What a disk gives: bytes a second of large files, past what the kernel keeps of them in memory."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.kernels.file_rows import PAGE_BYTES, asked_for
from gnnplan.profiles.limits import Rate

_FILE_BYTES, _NUM_FILES = 2**26, 3
_READ_BYTES = 2**22
_PAGES_APART = 4  # of every so many one is read: the kernel would read those between too


class DiskRates(Contract):
    """Of a worker, while those beside it use the disk too.

    Args:
        scattered_bytes_per_s: of pages that lie apart, asked for at once (None: not measured).
    """

    read_bytes_per_s: Rate
    write_bytes_per_s: Rate
    scattered_bytes_per_s: Rate | None = None


def disk_rates(folder: Path | None = None, file_bytes: int = _FILE_BYTES) -> DiskRates | None:
    """Medians of a few files, written to the disk and read from it again; None where none can be written.

    Args:
        folder: on the disk (None: where this process works).
    """
    content = os.urandom(file_bytes)  # a disk may leave out zeros
    try:
        timed = [_timed(folder or Path.cwd(), content) for _ in range(_NUM_FILES)]
    except OSError:
        return None
    written_s, read_s, scattered_s = (median(each) for each in zip(*timed, strict=True))
    return DiskRates(
        read_bytes_per_s=file_bytes / read_s,
        write_bytes_per_s=file_bytes / written_s,
        scattered_bytes_per_s=file_bytes / _PAGES_APART / scattered_s,
    )


def _timed(folder: Path, content: bytes) -> tuple[float, float, float]:
    """Seconds of writing a file, and of reading it and then pages of it, when it is no longer in memory."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        begun_s = time.perf_counter()
        if file.write(content) < len(content):
            raise OSError(errno.ENOSPC, "the disk is full")
        os.fdatasync(file.fileno())
        written_s = time.perf_counter() - begun_s
        _forget(file.fileno())
        file.seek(0)
        begun_s = time.perf_counter()
        while file.read(_READ_BYTES):
            pass
        read_s = time.perf_counter() - begun_s
        _forget(file.fileno())
        return written_s, read_s, _scattered_s(file.fileno(), len(content))


def _forget(descriptor: int) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _scattered_s(descriptor: int, num_bytes: int) -> float:
    """Seconds until one page in `_PAGES_APART` has been touched, as a gather of rows does."""
    import torch  # a profile that is only read needs none

    with mmap.mmap(descriptor, num_bytes, prot=mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        pages = torch.from_numpy(np.frombuffer(memory, np.uint8).reshape(-1, PAGE_BYTES))
        rows = torch.arange(0, len(pages), _PAGES_APART)
        begun_s = time.perf_counter()
        with asked_for(pages, rows):
            pages[:, 0][rows].sum()
        found_s = time.perf_counter() - begun_s
        del pages
    return found_s
