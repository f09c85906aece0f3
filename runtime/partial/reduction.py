"""The sum of a gradient over a group: every member adds one piece up for all, in the order of ranks.

A reduce-scatter and an all-gather, each of messages between any two members, chunk by chunk: the first sums travel
while the last parts do. One worker makes each number of the sum and all take it over, so the members' sums are equal
bit for bit. Who is missing is sent the sum as well, and finds it when it comes back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from profiles.kernels import pool
from runtime.partial.mailbox import MOST_CHUNKS, Kind, Mailbox

CHUNK = 1 << 16
"""Numbers of a piece that travel at a time."""

_Chunks = list[tuple[int, tuple[Tensor, ...]]]  # of a round, by their messages' numbers: every member's share, views


def sum_over(
    mailbox: Mailbox, members: Sequence[int], number: int, flat: Tensor, timeout_s: float, *, chunk: int = CHUNK
) -> Tensor:
    """The sum [P] of the members' `flat` [P] in host memory; neither must change afterwards.

    Args:
        members: ranks, ascending, this worker's among them.
        number: of the round.
        chunk: as all workers have it.

    Raises `PeerError` where a member does not send its part in time.
    """
    until_s, rank = time.monotonic() + timeout_s, mailbox.rank
    others = [member for member in members if member != rank]
    summed = pool.empty(flat.device, len(flat))
    mine = members.index(rank)
    parts_of, sums_of = (_chunked(numbers, members, number, chunk) for numbers in (flat, summed))
    for name, pieces in parts_of:
        for member, piece in zip(members, pieces):
            if member != rank:
                mailbox.post([member], Kind.PART, name, piece)
    for (name, pieces), (_, sums) in zip(parts_of, sums_of):
        parts = [pieces[mine] if m == rank else mailbox.take(Kind.PART, name, m, until_s) for m in members]
        sums[mine].copy_(parts[0])
        for part in parts[1:]:
            sums[mine].add_(part)
        mailbox.post(others, Kind.SUM, name, sums[mine])
    _take_sums(mailbox, members, sums_of, until_s)
    # Last: members wait for theirs, and those that are missing for nothing yet.
    missing = [rank for rank in range(mailbox.size) if rank not in members]
    for name, sums in sums_of:
        mailbox.post(missing, Kind.SUM, name, sums[mine])
    return summed


def sum_without(mailbox: Mailbox, members: Sequence[int], number: int, size: int, timeout_s: float) -> Tensor:
    """The sum [size] that a group made while this worker was missing.

    Raises `PeerError` where a member does not send its piece in time.
    """
    summed = pool.empty(torch.device("cpu"), size)
    _take_sums(mailbox, members, _chunked(summed, members, number, CHUNK), time.monotonic() + timeout_s)
    return summed


def _take_sums(mailbox: Mailbox, members: Sequence[int], sums_of: _Chunks, until_s: float) -> None:
    """Waits for the pieces of a sum that the other members make."""
    for name, sums in sums_of:
        for member, piece in zip(members, sums):
            if member != mailbox.rank:
                piece.copy_(mailbox.take(Kind.SUM, name, member, until_s))


def _chunked(flat: Tensor, members: Sequence[int], number: int, chunk: int) -> _Chunks:
    pieces = flat.tensor_split(len(members))
    count = max(-(-len(pieces[0]) // chunk), 1)
    return list(enumerate(zip(*(piece.tensor_split(count) for piece in pieces)), number * MOST_CHUNKS))
