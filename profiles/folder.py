"""A run's folder: one run at a time writes in it, and nothing is written through links out of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from gnnplan.profiles.errors import RunFailedError, UserError

LOCK_FILE = ".gnnplan.lock"


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Within, no other run may write in the folder, which is made where it is missing.

    The kernel lets go of the lock when the process that holds it ends, however it ends. So one that a dead process
    left blocks nobody.

    Raises:
        UserError: another process holds the folder; the message says which one, where, and since when.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder / LOCK_FILE)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UserError(f"{folder}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
    try:
        yield
    finally:
        with suppress(OSError):  # the folder is gone
            (folder / LOCK_FILE).unlink()
        os.close(lock)


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder for what workers write meanwhile. It stays where one failed and its error names a file there."""
    folder, is_named = Path(tempfile.mkdtemp(prefix=prefix)), False
    try:
        yield folder
    except RunFailedError as error:
        is_named = str(folder) in str(error)
        raise
    finally:
        if not is_named:
            shutil.rmtree(folder, ignore_errors=True)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of the file that is at `path` now."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 200).decode(errors="replace") or "another process"
            os.close(lock)
            raise UserError(f"{path.parent}: held by {holder}; wait for it to end, or name another folder") from None
        if _is_at(lock, path):
            try:
                os.ftruncate(lock, 0)
                who = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}"
                os.write(lock, who.encode())
            except OSError:  # a full disk
                path.unlink(missing_ok=True)
                os.close(lock)
                raise
            return lock
        os.close(lock)  # whoever held it has ended in between, and taken the file away


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    return False


def open_new(path: Path) -> TextIO:
    """A file to write text to, for whoever reads along; what lay under its name is replaced, a link is not followed."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w")


def make_inside(folder: Path, name: str) -> Path:
    """A folder in a run's folder, made where it is missing; `UserError` where a link is in its place."""
    inside = folder / name
    if inside.is_symlink():
        raise UserError(f"{inside}: is a link, and a run writes in its own folder alone; remove it")
    inside.mkdir(parents=True, exist_ok=True)
    return inside
