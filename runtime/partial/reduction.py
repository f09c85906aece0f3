"""The sum of a gradient over a group: every member adds one piece up for all, in the order of ranks.

A reduce-scatter and an all-gather, each of one message between any two members. One worker makes each number of the sum
and all take it over, so the members' sums are equal bit for bit. Who is missing is sent the sum as well, and finds it
when it comes back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from gnnplan.runtime.partial.mailbox import Kind, Mailbox


def sum_over(mailbox: Mailbox, members: Sequence[int], number: int, flat: Tensor, timeout_s: float) -> Tensor:
    """The sum [P] of the members' `flat` [P] in host memory; neither must change afterwards.

    Args:
        members: ranks, ascending, this worker's among them.
        number: of the round.

    Raises `PeerError` where a member does not send its part in time.
    """
    until_s, rank = time.monotonic() + timeout_s, mailbox.rank
    pieces = dict(zip(members, flat.tensor_split(len(members)), strict=True))
    for member, piece in pieces.items():
        if member != rank:
            mailbox.post([member], Kind.PART, number, piece)
    parts = [pieces[rank] if m == rank else mailbox.take(Kind.PART, number, m, until_s) for m in members]
    mine = parts[0].clone()  # of its own: a view would keep the whole sum until the last that is missing comes back
    for part in parts[1:]:
        mine.add_(part)
    mailbox.post([member for member in members if member != rank], Kind.SUM, number, mine)
    summed = _gathered(mailbox, members, number, len(flat), until_s, mine)
    # Last: members wait for theirs, and those that are missing for nothing yet.
    mailbox.post([absent for absent in range(mailbox.size) if absent not in members], Kind.SUM, number, mine)
    return summed


def sum_without(mailbox: Mailbox, members: Sequence[int], number: int, size: int, timeout_s: float) -> Tensor:
    """The sum [size] that a group made while this worker was missing.

    Raises `PeerError` where a member does not send its piece in time.
    """
    return _gathered(mailbox, members, number, size, time.monotonic() + timeout_s)


def _gathered(
    mailbox: Mailbox, members: Sequence[int], number: int, size: int, until_s: float, mine: Tensor | None = None
) -> Tensor:
    """Every member's piece of a sum; `mine` is this worker's, where it is one of them."""
    summed = torch.empty(size)  # not of the pool: it outlives the epoch, whose blocks are counted
    for member, piece in zip(members, summed.tensor_split(len(members)), strict=True):
        own = mine if member == mailbox.rank else None
        piece.copy_(mailbox.take(Kind.SUM, number, member, until_s) if own is None else own)
    return summed
