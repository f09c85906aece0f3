"""The sum of a gradient over a group: every member adds one piece up for all, in the order of ranks.

A reduce-scatter and an all-gather, each a message between any two members. One worker makes each number of the sum
and all take it over, so the members' sums are equal bit for bit. Who is missing is sent the sum as well, and finds it
when it comes back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.partial.mailbox import Kind, Mailbox


def sum_over(mailbox: Mailbox, members: Sequence[int], number: int, flat: Tensor, timeout_s: float) -> Tensor:
    """The sum [P] of the members' `flat` [P] in host memory, which must not change afterwards.

    Args:
        members: ranks, ascending, this worker's among them.
        number: of the round.

    Raises `PeerError` where a member does not send its part in time.
    """
    until_s = time.monotonic() + timeout_s
    pieces = flat.tensor_split(len(members))
    for member, piece in zip(members, pieces):
        if member != mailbox.rank:
            mailbox.post([member], Kind.PART, number, piece)
    own = pieces[members.index(mailbox.rank)]
    parts = [own if member == mailbox.rank else mailbox.take(Kind.PART, number, member, until_s) for member in members]
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    mailbox.post([member for member in members if member != mailbox.rank], Kind.SUM, number, total)
    summed = torch.cat(
        [total if member == mailbox.rank else mailbox.take(Kind.SUM, number, member, until_s) for member in members]
    )
    # Last: members wait for theirs, and those that are missing for nothing yet.
    mailbox.post([rank for rank in range(mailbox.size) if rank not in members], Kind.SUM, number, total)
    return summed


def sum_without(mailbox: Mailbox, members: Sequence[int], number: int, timeout_s: float) -> Tensor:
    """The sum [P] that a group made while this worker was missing.

    Raises `PeerError` where a member does not send its piece in time.
    """
    until_s = time.monotonic() + timeout_s
    return torch.cat([mailbox.take(Kind.SUM, number, member, until_s) for member in members])
