"""After a worker has waited in vain: who still answers, asked over the store that torchrun keeps for a run.

gloo's errors do not say whom a collective waited for. Whoever fails calls the roll before it ends: it answers, and
looks who else does. Workers in a collective that lost the same one fail within a moment of each other, since a
connection that times out takes all others of its worker with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from gnnplan.profiles.launch import is_peer_loss

WAIT_S = 2.0
_LEAST_S = 0.1  # asked of each, also of those that are asked last


class LostWorkerError(RuntimeError):
    """Workers do not answer any more.

    Args:
        message: names them.
        missing: their ranks, the reporter's own where nobody answers it; empty where the message is all there is.
    """

    def __init__(self, message: str, missing: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


def all_come(store: dist.Store, rank: int, size: int, timeout_s: float) -> None:
    """Waits until every worker has come to the store; `LostWorkerError` names those that have not.

    Whoever is silent at the start is else only known as one that is missing.
    """
    coming = dist.PrefixStore("coming", store)
    coming.set(str(rank), "here")
    deadline_s = time.monotonic() + timeout_s
    missing = tuple(peer for peer in range(size) if not _answers(coming, peer, deadline_s))
    if missing:
        names = ", ".join(map(str, missing))
        raise LostWorkerError(f"worker {names} has not started within {timeout_s:g} s", missing)


def answer() -> None:
    """Tells whoever calls the roll that this worker is there."""
    with suppress(RuntimeError):  # the connection is gone: nobody will hear it
        _store().set(str(dist.get_rank()), "here")


def answering(wait_s: float = WAIT_S) -> set[int]:
    """Ranks of the workers that call the roll too within `wait_s`, this one's among them.

    Nothing where the store is out of reach, which lies on the first host.
    """
    store, deadline_s = _store(), time.monotonic() + wait_s
    rank, size = dist.get_rank(), dist.get_world_size()
    answer()
    if not _answers(store, rank, deadline_s):
        return set()
    return {rank, *(peer for peer in range(size) if peer != rank and _answers(store, peer, deadline_s))}


def all_answer(ranks: Iterable[int], wait_s: float) -> bool:
    """Whether each of these workers calls the roll too within `wait_s`."""
    store, deadline_s = _store(), time.monotonic() + wait_s
    return all(_answers(store, rank, deadline_s) for rank in ranks)


@contextmanager
def naming_lost_workers(wait_s: float = WAIT_S) -> Iterator[None]:
    """Turns an error over a lost peer, or one raised from such, into one that names it; `LostWorkerError`."""
    try:
        yield
    except Exception as error:
        if not (dist.is_initialized() and is_peer_loss(error)) or isinstance(error, LostWorkerError):
            raise
        here, rank, size = answering(wait_s), dist.get_rank(), dist.get_world_size()
        missing = tuple(peer for peer in range(size) if peer not in here)
        if not here:  # the first host is lost, or this one: the others' reports say which
            raise LostWorkerError(f"worker 0 does not answer: {error}", (0,)) from error
        if len(here) == 1 and size > 2:
            raise LostWorkerError(f"worker {rank} hears from no other worker: {error}", (rank,)) from error
        if missing:
            raise LostWorkerError(f"worker {', '.join(map(str, missing))} does not answer: {error}", missing) from error
        raise


def _store() -> dist.Store:
    return dist.PrefixStore("roll_call", _get_default_store())


def _answers(store: dist.Store, rank: int, deadline_s: float) -> bool:
    left_s = max(deadline_s - time.monotonic(), _LEAST_S)
    try:
        store.wait([str(rank)], timedelta(seconds=left_s))
    except RuntimeError:  # DistStoreError among them: nobody wrote it, or the connection is gone
        return False
    return True
