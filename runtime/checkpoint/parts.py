"""One worker's part of a checkpoint: plain arrays in an uncompressed `.npz`, as shards are.

An `.npz` needs nothing that is not here already, holds no pickles, and says every type and shape before anything of
that size is made.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gnnplan.planner.checkpoints import Part
from gnnplan.planner.loaders.read import check_archive, reading, require_file
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError

Arrays = Mapping[str, np.ndarray]
Likes = Mapping[str, tuple[tuple[int | None, ...], np.dtype]]
"""Shape (None: any length) and type of every array, by name."""

_READ_BYTES = 2**20


class OtherTrainingError(UserError):
    """A part is whole, and of a training that keeps something else."""


def write_part(path: Path, arrays: Arrays) -> Part:
    """Writes under a temporary name, then renames; `UserError` where there is no room, or no folder."""
    with replacing(path) as temporary:
        with temporary.open("wb") as sink:
            np.savez(sink, **arrays)  # type: ignore[arg-type]
            sink.flush()
            os.fsync(sink.fileno())
        return _part_of(temporary)


def sync(path: Path) -> None:
    """Has a file, or what a folder names, written to the disk: what a machine that goes away leaves."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_part(
    path: Path, part: Part, like: Mapping[str, tuple[tuple[int | None, ...], np.dtype]]
) -> dict[str, np.ndarray]:
    """The arrays of a part, those of `like` with its shapes and types.

    Args:
        part: what the manifest says of the file.
        like: (shape, type) by name; an entry None in a shape may be of any length. What else the file has stays there.

    Raises:
        UserError: it is missing or damaged.
        OtherTrainingError: it is of something else.
    """
    require_file(path)
    if path.stat().st_size != part.num_bytes or _part_of(path) != part:
        raise UserError(f"{path}: damaged, its content is not what was written")
    check_archive(path)
    with reading(path, "a part of a checkpoint"), np.load(path, allow_pickle=False) as stored:
        missing = sorted(set(like) - set(stored.files))
        if missing:
            raise OtherTrainingError(f"{path}: {missing[0]} is missing; it is of another training")
        found = {name: stored[name] for name in like}
    for name, (shape, dtype) in like.items():
        its = found[name]
        fits = len(its.shape) == len(shape) and all(w is None or w == h for w, h in zip(shape, its.shape, strict=True))
        if not fits or its.dtype != dtype:
            raise OtherTrainingError(
                f"{path}: {name} is {its.dtype} {list(its.shape)}, {dtype} {list(shape)} is needed"
            )
    return found


def _part_of(path: Path) -> Part:
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("rb") as source:
        while piece := source.read(_READ_BYTES):
            digest.update(piece)
            num_bytes += len(piece)
    return Part(sha256=digest.hexdigest(), num_bytes=num_bytes)
