"""What the first worker does by itself: the others stay, for a host whose workers have ended is taken for lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from gnnplan.profiles.roll_call import LostWorkerError

_BEATS, _DONE = "beats", "done"
_POLL_S = 0.2


class FirstAlone:
    """Tells the other workers that the first one is at work, and when it has done all.

    Args:
        timeout_s: longest time without a beat.
    """

    def __init__(self, rank: int, timeout_s: float) -> None:
        self._rank, self._timeout_s = rank, timeout_s
        self._store = _store() if dist.is_initialized() and dist.get_world_size() > 1 else None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Everyone enters; whoever is not the first leaves when the first one has, or is silent."""
        yield
        if self._store is None:
            return
        if self._rank == 0:
            self._store.set(_DONE, "1")
        else:
            self._wait(self._store)

    def beat(self) -> None:
        """By the first worker, at least once in the longest time."""
        if self._store is not None:
            self._store.add(_BEATS, 1)

    def _wait(self, store: dist.Store) -> None:
        seen, since_s = -1, time.monotonic()
        while not store.check([_DONE]):
            beats = store.add(_BEATS, 0)
            if beats != seen:
                seen, since_s = beats, time.monotonic()
            elif time.monotonic() - since_s > self._timeout_s:
                raise LostWorkerError(f"worker 0 has been silent for {self._timeout_s:g} s while it evaluated", (0,))
            time.sleep(_POLL_S)


def _store() -> dist.Store:
    from torch.distributed.distributed_c10d import _get_default_store

    return dist.PrefixStore("first alone", _get_default_store())
