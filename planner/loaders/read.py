"""Reads files nobody vouches for: every fault ends in a `UserError` that starts with the path."""

from __future__ import annotations

import gzip
import io
import stat
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import check_fits

_CHECK_BYTES = 64 * 2**20


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turns whatever the decoder of a file raises into one line: the path, what was expected, the fault."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read as {kind} ({error.strerror or error})") from None
    except Exception as error:  # decoders of broken bytes raise nearly anything
        lines = str(error).splitlines() or [type(error).__name__]
        raise UserError(f"{path}: not {kind}, or damaged ({lines[0][:160]}); make or copy it again") from None


def require_file(path: Path) -> None:
    """`UserError` unless `path` is a file that holds something, and no more than memory does."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise UserError(f"{path}: a file is needed here, this is {what}")
    if found.st_size == 0:
        raise UserError(f"{path}: the file is empty")
    check_fits(found.st_size, str(path), "reading it")


def read_npz(path: Path, keys: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` named in `keys`, as far as it holds them; nothing is unpickled."""
    require_file(path)
    if not check_archive(path):
        raise UserError(f"{path}: not an .npz file (no complete zip archive); write it with numpy.savez")
    arrays = {}
    with reading(path, "an .npz file"), np.load(path, allow_pickle=False) as file:
        for key in file.files:
            if key in keys:
                with reading(path, f"an .npz file of plain arrays at key {key!r}"):
                    array = file[key]
                    if not isinstance(array, np.ndarray):  # NumPy hands out a member that is no array as bytes
                        raise UserError(f"{path}: {key} is no array; write the file with numpy.savez")
                    arrays[key] = array
    return arrays


def check_archive(path: Path) -> bool:
    """Whether a file is a zip archive; `UserError` where its members would take more memory than there is."""
    with reading(path, "a zip archive"):
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            check_fits(sum(member.file_size for member in archive.infolist()), str(path), "unpacking it")
    return True


def read_npy(path: Path) -> np.ndarray:
    """The array of an `.npy` file; nothing is unpickled."""
    require_file(path)
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise UserError(f"{path}: not an .npy file; write it with numpy.save")
    with reading(path, "an .npy file"):
        return np.load(path, allow_pickle=False)


def read_table(path: Path, dtype: type, *, num_columns: int | None = None, delimiter: str | None = None) -> np.ndarray:
    """A text table [rows, columns], gzip-compressed where the name ends in `.gz`; `#` comments.

    Raises:
        UserError: with the line number where a line does not parse.
    """
    require_file(path)
    fault: str | None = None
    table: np.ndarray = np.empty((0, 0), dtype)
    with reading(path, "a gzip file" if path.suffix == ".gz" else "text"), _open_text(path) as lines:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data")
                table = np.loadtxt(lines, dtype, comments="#", delimiter=delimiter, ndmin=2)
        except (ValueError, OverflowError) as error:
            fault = str(error).splitlines()[0]
        if fault is None and table.size and num_columns not in (None, table.shape[1]):
            fault = f"{table.shape[1]} columns, {num_columns} are needed"
    if fault is not None:
        raise UserError(_locate_fault(path, dtype, num_columns, delimiter) or f"{path}: {fault}")
    if not table.size:
        raise UserError(f"{path}: no line holds data")
    return table


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    # latin-1 decodes any byte, so that a stray one is reported with its line, not as a decoding fault.
    if path.suffix == ".gz":
        with _Unpacked(path) as raw, io.TextIOWrapper(raw, encoding="latin-1") as text:
            yield text
    else:
        with path.open(encoding="latin-1") as text:
            yield text


class _Unpacked(gzip.GzipFile):
    """A gzip file that ends in a `UserError` where it unpacks to more than memory holds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._where, self._num_bytes, self._checked_bytes = str(path), 0, _CHECK_BYTES

    def read1(self, size: int = -1) -> bytes:
        found = super().read1(size)
        self._num_bytes += len(found)
        if self._num_bytes > self._checked_bytes:  # a table of it is about four times as large while it is read
            check_fits(4 * self._num_bytes, self._where, "the table that it unpacks to")
            self._checked_bytes += _CHECK_BYTES
        return found


def _locate_fault(path: Path, dtype: type, num_columns: int | None, delimiter: str | None) -> str | None:
    """The C parser counts rows without comments; a second pass finds the line a user sees."""
    with _open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split("#", 1)[0].strip().split(delimiter)
            if not any(fields):
                continue
            num_columns = num_columns or len(fields)
            shown = repr(line.strip()[:40])
            if len(fields) != num_columns:
                return f"{path}, line {number}: {num_columns} columns are needed, found {shown}"
            try:
                np.array([int(f) if dtype is np.int64 else float(f) for f in fields], dtype)
            except (ValueError, OverflowError):
                kind = "whole numbers" if dtype is np.int64 else "numbers"
                return f"{path}, line {number}: {kind} are needed, found {shown}"
    return None
