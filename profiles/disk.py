"""What a disk gives: bytes a second of large files, past what the kernel keeps of them in memory."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import Rate

_FILE_BYTES, _NUM_FILES = 2**26, 3
_READ_BYTES = 2**22


class DiskRates(Contract):
    """Of a worker, while those beside it use the disk too."""

    read_bytes_per_s: Rate
    write_bytes_per_s: Rate


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
    written, read = (file_bytes / median(each) for each in zip(*timed, strict=True))
    return DiskRates(read_bytes_per_s=read, write_bytes_per_s=written)


def _timed(folder: Path, content: bytes) -> tuple[float, float]:
    """Seconds of writing a file, and of reading it when it is no longer in memory."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        begun_s = time.perf_counter()
        file.write(content)
        os.fdatasync(file.fileno())
        written_s = time.perf_counter() - begun_s
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        begun_s = time.perf_counter()
        while file.read(_READ_BYTES):
            pass
        return written_s, time.perf_counter() - begun_s
