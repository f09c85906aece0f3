"""Arrays of an `.npz` where they lie in its file: pages are read when somebody looks at them, and may go again."""

from __future__ import annotations

import io
import math
import mmap
import struct
import zipfile
from pathlib import Path

import numpy as np

from gnnplan.profiles.errors import UserError

_LOCAL_HEADER_BYTES = 30
_LENGTHS = struct.Struct("<HH")  # of the name and of what else stands between a member's header and its content
_LENGTHS_AT = 26
_MOST_HEADER_BYTES = 2**16


def mapped_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed `.npz`, as `numpy.savez` writes it, by name.

    They may be written to, and the file stays as it is.

    Raises:
        UserError: an array is compressed, has objects, or ends behind its member of the archive.
    """
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return {info.filename.removesuffix(".npy"): _array(whole, info, path) for info in archive.infolist()}


def _array(whole: mmap.mmap, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    if info.compress_type != zipfile.ZIP_STORED:
        raise UserError(f"{path}: {info.filename} is compressed, and cannot be read in place")
    lengths = _LENGTHS.unpack_from(whole, info.header_offset + _LENGTHS_AT)
    start = info.header_offset + _LOCAL_HEADER_BYTES + sum(lengths)
    head = io.BytesIO(whole[start : start + min(info.file_size, _MOST_HEADER_BYTES)])
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(head)
    count, offset = math.prod(shape), head.tell()
    if dtype.hasobject or is_fortran or offset + count * dtype.itemsize > info.file_size:
        raise UserError(f"{path}: {info.filename} is no plain array of the length that it says")
    return np.frombuffer(whole, dtype, count, start + offset).reshape(shape)
