"""A worker that hears from nobody names itself, not those that it has waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gnnplan.profiles.roll_call import answer, answering
from gnnplan.runtime.partial.mailbox import Mailbox, PeerError

_ROLL_CALL_S = 10.0  # longest


@contextmanager
def naming_who_is_cut_off(mailbox: Mailbox, timeout_s: float) -> Iterator[None]:
    """Raises a `PeerError` that names this worker, where one was raised because this worker is cut off."""
    try:
        yield
    except PeerError as error:
        if not _is_cut_off(mailbox, timeout_s):
            raise
        rank = mailbox.rank
        raise PeerError(f"worker {rank} hears from no other worker: {error}", (rank,)) from error


def _is_cut_off(mailbox: Mailbox, timeout_s: float) -> bool:
    """Whether nothing has come from anybody for most of the time it waited, and nobody else has waited in vain."""
    answer()  # to those who wonder whether they are alone
    if mailbox.size <= 2 or mailbox.silent_s < timeout_s / 2:
        return False
    # Others that heard nothing either wait in vain too, but may have begun to wait later.
    return len(answering(min(timeout_s / 2, _ROLL_CALL_S))) <= 1
