"""What arrives: the newest rows of every exchange with their version; who waits is told of lost peers."""

import time

import pytest
import torch
from meshed import meshed, slots_between

from gnnplan.runtime.partial.mailbox import Kind, Mailbox, PeerError, bytes_of

COUNTS = [[0, 2, 1], [3, 0, 0], [1, 4, 0]]  # rows from p to q


def rows_of(sender, version, count, width=3):
    return torch.full((count, width), 100.0 * sender + version)


def soon():
    return time.monotonic() + 20


def test_rows_come_to_their_places_with_their_versions():
    """From every peer that sends any, in the order of ranks."""
    with meshed(3, slots_between(COUNTS)) as boxes:
        for version in (0, 1):
            for rank, box in enumerate(boxes):
                box.post_rows(0, version, rows_of(rank, version, sum(COUNTS[rank])))
        for rank, box in enumerate(boxes):
            senders = [p for p in range(3) if COUNTS[p][rank]]
            assert list(box.senders(0)) == senders
            assert box.wait(lambda box=box: all(box.version(0, p) == 1 for p in box.senders(0)), soon())
            out = torch.empty(sum(COUNTS[p][rank] for p in senders), 3)
            assert [arrival.version for arrival in box.copy_rows(0, out).values()] == [1] * len(senders)
            assert torch.equal(out, torch.cat([rows_of(p, 1, COUNTS[p][rank]) for p in senders]))
            assert [box.latest[p] for p in senders] == [1] * len(senders)


def test_rows_in_use_are_not_overwritten_by_those_that_come():
    """A message half received changes nothing that is copied meanwhile."""
    box = Mailbox(0, 2, slots_between([[0, 1], [2, 0]])[0])
    for version in (4, 5):
        box.room_for(1, 0, version, 24)[:] = bytes_of(rows_of(1, version, 2))
        box.arrived(1, 0, version, memoryview(b""), 0.0)
    box.room_for(1, 0, 6, 24)[:12] = bytes_of(rows_of(1, 6, 1))
    out = torch.empty(2, 3)
    assert box.copy_rows(0, out)[1].version == 5
    assert torch.equal(out, rows_of(1, 5, 2))


@pytest.mark.parametrize(
    ("kind", "num_bytes"), [(0, 23), (1, 24), (7, 0), (Kind.PART, 3), (Kind.GROUP, 2**21), (-9, 0)]
)
def test_messages_of_the_wrong_size_or_kind_are_refused(kind, num_bytes):
    """Before any of it is taken in."""
    box = Mailbox(0, 2, slots_between([[0, 1], [2, 0]])[0])
    with pytest.raises(ValueError, match="came"):
        box.room_for(1, kind, 0, num_bytes)


def test_pieces_are_taken_by_kind_round_and_peer():
    """Also pieces without a number, all of which are there at once."""
    pieces = {
        (Kind.PART, 3): [1.0, 2.0],
        (Kind.PART, 4): [],
        (Kind.SUM, 3): [9.0],
        (Kind.PART, 5): [8.0],
    }
    with meshed(2) as boxes:
        for (kind, number), numbers in pieces.items():
            boxes[0].post([1], kind, number, torch.tensor(numbers))
        for (kind, number), numbers in reversed(pieces.items()):
            assert boxes[1].take(kind, number, 0, soon()).tolist() == numbers
        with pytest.raises(PeerError, match=r"Timed out: worker 0 .* step 3"):
            boxes[1].take(Kind.PART, 3, 0, time.monotonic())


def test_waiting_ends_when_it_should():
    """False by the deadline; an error with the peer's name when one is lost, even a peer not waited for."""
    with meshed(3) as boxes:
        assert boxes[0].wait(lambda: True, time.monotonic())
        assert not boxes[0].wait(lambda: False, time.monotonic() + 0.01)
        boxes[2]._mesh.close()
        with pytest.raises(PeerError, match="closed by peer: worker 2"):
            boxes[0].wait(lambda: False, soon())


def test_groups_and_readiness_are_known_by_round():
    """The first group of a round holds; what is over is forgotten."""
    with meshed(2) as boxes:
        boxes[0].post([1], Kind.READY, 6)
        boxes[0].post([1], Kind.GROUP, 5, b'{"members": [0]}')
        assert boxes[1].wait(lambda: boxes[1].ready[0] == 6 and 5 in boxes[1].groups, soon())
        boxes[1].know_group(5, {"members": [1]})
        assert boxes[1].groups[5] == {"members": [0]}
        boxes[1].forget_groups(6)
        assert not boxes[1].groups
