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
    summed = torch.empty_like(flat)  # not of the pool: it outlives the epoch, whose blocks are counted
    mine = members.index(rank)
    parts_of, sums_of = (_chunked(numbers, members, number, chunk) for numbers in (flat, summed))
    for message, pieces in parts_of:
        for member, piece in zip(members, pieces, strict=True):
            if member != rank:
                mailbox.post([member], Kind.PART, message, piece)
    for (message, pieces), (_, sums) in zip(parts_of, sums_of, strict=True):
        parts = [pieces[mine] if m == rank else mailbox.take(Kind.PART, message, m, until_s) for m in members]
        sums[mine].copy_(parts[0])
        for part in parts[1:]:
            sums[mine].add_(part)
        mailbox.post(others, Kind.SUM, message, sums[mine])
    _take_sums(mailbox, members, sums_of, until_s)
    # Last: members wait for theirs, and those that are missing for nothing yet.
    missing = [absent for absent in range(mailbox.size) if absent not in members]
    for message, sums in sums_of if missing else ():
        mailbox.post(missing, Kind.SUM, message, sums[mine].clone())  # a view would keep the whole sum until they come
    return summed


def sum_without(
    mailbox: Mailbox, members: Sequence[int], number: int, size: int, timeout_s: float, *, chunk: int = CHUNK
) -> Tensor:
    """The sum [size] that a group made while this worker was missing.

    Raises `PeerError` where a member does not send its piece in time.
    """
    summed = torch.empty(size)
    _take_sums(mailbox, members, _chunked(summed, members, number, chunk), time.monotonic() + timeout_s)
    return summed


def _take_sums(mailbox: Mailbox, members: Sequence[int], sums_of: _Chunks, until_s: float) -> None:
    """Waits for the pieces of a sum that the other members make."""
    for message, sums in sums_of:
        for member, piece in zip(members, sums, strict=True):
            if member != mailbox.rank:
                piece.copy_(mailbox.take(Kind.SUM, message, member, until_s))


def _chunked(flat: Tensor, members: Sequence[int], number: int, chunk: int) -> _Chunks:
    pieces = flat.tensor_split(len(members))
    count = max(-(-len(pieces[0]) // chunk), 1)
    assert count <= MOST_CHUNKS, "or messages of the next round would have the same numbers"
    return list(enumerate(zip(*(piece.tensor_split(count) for piece in pieces), strict=True), number * MOST_CHUNKS))
