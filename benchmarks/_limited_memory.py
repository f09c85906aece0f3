"""Processes that may have no more than so much memory, pages of files among it: in a control group of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gnnplan.profiles.errors import UserError

_ROOT = Path("/sys/fs/cgroup")
_GONE_S = 10.0


@contextmanager
def limited(num_bytes: int) -> Iterator[Callable[[], None]]:
    """Yields what a process calls to be among them; `UserError` where this machine gives no such group."""
    if (_ROOT / "memory" / "memory.limit_in_bytes").exists():
        group, limit = _ROOT / "memory" / f"gnnplan-{os.getpid()}", "memory.limit_in_bytes"
    elif "memory" in _words(_ROOT / "cgroup.subtree_control"):
        group, limit = _ROOT / f"gnnplan-{os.getpid()}", "memory.max"
    else:
        raise UserError("no control group of this machine limits memory")
    try:
        group.mkdir()
        (group / limit).write_text(str(num_bytes))
    except OSError as error:
        raise UserError(f"{group}: {error.strerror}; it takes root") from None
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    until_s = time.monotonic() + _GONE_S
    while group.exists() and time.monotonic() < until_s:
        with suppress(OSError):  # busy until the last of its processes is gone altogether
            group.rmdir()
            return
        time.sleep(0.1)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
