"""Sums over a group: the same bits on every member, of the members' numbers only, and named where one is silent."""

from functools import reduce

import pytest
import torch
from meshed import in_threads, meshed

from gnnplan.runtime.partial.mailbox import PeerError
from gnnplan.runtime.partial.reduction import sum_over, sum_without


def gradients(size, count):
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(count, generator=generator) for _ in range(size)]


@pytest.mark.parametrize("members", [(0, 1, 2, 3), (0, 2, 3), (1, 3), (2,)])
@pytest.mark.parametrize("count", [1, 3, 1000, 600_001])
def test_members_get_the_sum_of_theirs_with_the_same_bits(members, count):
    """Added up in the order of ranks, pieces without a number too; who is missing finds them later."""
    missing, expected = [rank for rank in range(4) if rank not in members], {}
    with meshed(4) as boxes:
        for number in (5, 6):
            flats = {member: number * flat for member, flat in enumerate(gradients(4, count)) if member in members}
            sums = in_threads(
                [lambda m=m, f=f, n=number: sum_over(boxes[m], members, n, f, 20.0) for m, f in flats.items()]
            )
            expected[number] = reduce(torch.add, flats.values())
            assert all(torch.equal(each, expected[number]) for each in sums)
        for number in (6, 5):
            sums = in_threads([lambda r=r, n=number: sum_without(boxes[r], members, n, count, 20.0) for r in missing])
            assert all(torch.equal(each, expected[number]) for each in sums)
        assert not any(box._parts for box in boxes)


def test_a_silent_member_is_named():
    """By the timeout."""
    flats = gradients(3, 9)
    with meshed(3) as boxes, pytest.raises(PeerError, match="Timed out: worker 2"):
        in_threads([lambda m=m: sum_over(boxes[m], (0, 1, 2), 4, flats[m], 0.2) for m in (0, 1)])
