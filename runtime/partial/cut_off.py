"""Who is lost, where a worker has waited in vain: itself, or one that those it waited for have waited for too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gnnplan.profiles.roll_call import all_answer, answer, answering
from gnnplan.runtime.partial.mailbox import Mailbox, PeerError

_ROLL_CALL_S = 10.0  # longest


@contextmanager
def naming_who_is_lost(mailbox: Mailbox, timeout_s: float) -> Iterator[None]:
    """Has a `PeerError` name this worker where it is cut off, and those that do not answer where the named ones do."""
    try:
        yield
    except PeerError as error:
        answer()  # to those who wonder whether they are alone
        rank, wait_s = mailbox.rank, min(timeout_s / 2, _ROLL_CALL_S)
        if _is_cut_off(mailbox, timeout_s, wait_s):
            raise PeerError(f"worker {rank} hears from no other worker: {error}", (rank,)) from error
        if missing := _behind(error, mailbox.size, wait_s):
            names = ", ".join(map(str, missing))
            raise PeerError(f"worker {names} does not answer, and others wait for it: {error}", missing) from error
        raise


def _is_cut_off(mailbox: Mailbox, timeout_s: float, wait_s: float) -> bool:
    """Whether nothing has come from anybody for most of the time it waited, and nobody else has waited in vain."""
    if mailbox.size <= 2 or mailbox.silent_s < timeout_s / 2:
        return False
    # Others that heard nothing either wait in vain too, but may have begun to wait later.
    return len(answering(wait_s)) <= 1


def _behind(error: PeerError, size: int, wait_s: float) -> tuple[int, ...]:
    """Workers that do not answer where all that an error names do: these have only waited for them."""
    if not error.missing or size <= 2 or not all_answer(error.missing, wait_s):
        return ()
    here = answering()
    return tuple(peer for peer in range(size) if peer not in here)
