"""One process that keeps a core busy beside the first part of something."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDS_S = 10.0


@contextmanager
def busy_beside_first(share: float) -> Iterator[Callable[[int, int], None]]:
    """One process is busy until more than a share of all points is done, or until the context is left.

    Yields what is to be told of points done, of how many: the `on_progress` of a profile.
    """
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def on_progress(done: int, total: int) -> None:
        if done > share * total:
            busy.kill()

    try:
        yield on_progress
    finally:
        busy.kill()
        busy.wait(_ENDS_S)
