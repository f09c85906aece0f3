"""Halo rows and gradients that are late are replaced by the newest there are, never older than allowed."""

import threading
import time

import numpy as np
import pytest
import torch
from meshed import in_threads, meshed

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import PeerError, Slot

COUNTS = np.array([[0, 2, 1], [3, 0, 2], [1, 2, 0]])  # rows from p to q
NUM_LOCAL, WIDTH = 6, 4
STEPS = ("l0/aggregate", "l1/aggregate")
FIRST = WARM_UP_EPOCHS


class Exchanger:
    """One worker's exchanges of rows, the first ones of its own, and of their gradients back."""

    def __init__(self, rank, lateness):
        self.lateness, self.num_halo = lateness, int(COUNTS[:, rank].sum())
        self.send_rows = torch.cat([torch.arange(int(count)) for count in COUNTS[rank]])

    def begin(self, epoch):
        self.lateness.begin(epoch)

    def fetch(self, x, step):
        self.lateness.send(f"{step}/forward", x[self.send_rows])
        return self.lateness.receive(f"{step}/forward", torch.empty(self.num_halo, WIDTH))

    def give_back_(self, halo_grad, grad, step):
        self.lateness.send(f"{step}/backward", halo_grad)
        came = self.lateness.receive(f"{step}/backward", torch.empty(len(self.send_rows), WIDTH))
        return grad.index_add_(0, self.send_rows, came)


def exchangers_of(boxes, *, patience_s=2.0, max_staleness=2, timeout_s=20.0):
    """One for each worker; late is what does not come for `patience_s`."""
    decision = PartialReduceDecision(max_staleness=max_staleness, min_group=2, contributing=((1, 1, 1),))
    made = []
    for rank, box in enumerate(boxes):
        made.append(Exchanger(rank, Lateness.of(box, decision, 1000, timeout_s)))
        made[-1].lateness.pace.deadline_s = lambda _: time.monotonic() + patience_s
    return made


@pytest.fixture
def boxes():
    """Three connected mailboxes with forward and backward slots of two steps."""
    slots = []
    for rank in range(3):
        sent, received = COUNTS[rank].tolist(), COUNTS[:, rank].tolist()
        forward = [Slot(f"{name}/forward", received, sent, WIDTH) for name in STEPS]
        backward = [Slot(f"{name}/backward", sent, received, WIDTH) for name in STEPS]
        slots.append(forward + backward)
    with meshed(3, slots) as connected:
        yield connected


def rows_of(rank, epoch):
    """A worker's rows in an epoch: every number says whose and when."""
    return torch.arange(NUM_LOCAL * WIDTH, dtype=torch.float32).view(NUM_LOCAL, WIDTH) + 1000 * rank + 100 * epoch


def epochs_in(halo, rank):
    """Of which epoch the rows of each peer are."""
    parts = halo.split(COUNTS[:, rank].tolist())
    return {peer: int((part[0, 0] - 1000 * peer) // 100) for peer, part in enumerate(parts) if len(part)}


def fetch(exchanger, epoch, step=STEPS[0]):
    return exchanger.fetch(rows_of(exchanger.lateness.mailbox.rank, epoch), step)


def train(exchanger, epoch):
    """An epoch's exchanges; what came in the first of them."""
    exchanger.begin(epoch)
    halo = fetch(exchanger, epoch)
    fetch(exchanger, epoch, STEPS[1])
    for name in STEPS[::-1]:
        exchanger.give_back_(torch.ones(exchanger.num_halo, WIDTH), torch.zeros(NUM_LOCAL, WIDTH), name)
    return halo


def warm_up(exchangers):
    for epoch in range(FIRST):
        halos = in_threads([lambda e=e, n=epoch: train(e, n) for e in exchangers])
        for rank, halo in enumerate(halos):
            expected = [rows_of(p, epoch)[: int(COUNTS[p, rank])] for p in range(3)]
            assert torch.equal(halo, torch.cat(expected))


def test_in_the_warm_up_all_wait_and_rows_are_the_owners(boxes):
    """A worker that comes late is waited for, in both directions; gradients are summed at the owners."""
    exchangers = exchangers_of(boxes)

    def late():
        time.sleep(0.3)
        return train(exchangers[2], 0)

    in_threads([lambda: train(exchangers[0], 0), lambda: train(exchangers[1], 0), late])
    assert [e.lateness.oldest for e in exchangers] == [0, 0, 0]
    grads = in_threads(
        [lambda e=e, r=rank: (e.begin(1), fetch(e, 1), e.give_back_(torch.ones(e.num_halo, WIDTH) * (r + 1),
         torch.zeros(NUM_LOCAL, WIDTH), STEPS[0]))[2] for rank, e in enumerate(exchangers)]
    )  # fmt: skip
    for rank, grad in enumerate(grads):
        expected = torch.zeros(NUM_LOCAL, WIDTH)
        for peer in range(3):
            expected[: int(COUNTS[rank, peer])] += peer + 1
        assert torch.equal(grad, expected)


def test_a_late_peer_is_gone_on_without_and_its_rows_come_later(boxes):
    """Old rows in its place, new ones of the others; what it sends late is used as soon as it is there."""
    exchangers = exchangers_of(boxes)
    warm_up(exchangers)
    halos = in_threads([lambda e=e: train(e, FIRST) for e in exchangers[:2]])
    assert epochs_in(halos[0], 0) == {1: FIRST, 2: FIRST - 1}
    assert epochs_in(halos[1], 1) == {0: FIRST, 2: FIRST - 1}
    assert [e.lateness.oldest for e in exchangers[:2]] == [1, 1]
    assert all(2 in e.lateness.missed for e in exchangers[:2])
    halo = train(exchangers[2], FIRST)
    assert epochs_in(halo, 2) == {0: FIRST, 1: FIRST}
    for exchanger, box in zip(exchangers[:2], boxes):
        exchanger.lateness.took_part = [True, True, False]
        assert box.wait(lambda b=box: b.version(0, 2) == FIRST, time.monotonic() + 20)  # sent, but perhaps not yet here
    halos = in_threads([lambda e=e: train(e, FIRST + 1) for e in exchangers[:2]])
    assert epochs_in(halos[0], 0) == {1: FIRST + 1, 2: FIRST}


def test_rows_too_old_are_waited_for(boxes):
    """After K epochs without a peer nothing is used that is older, however long its rows take."""
    exchangers = exchangers_of(boxes, max_staleness=2)
    warm_up(exchangers)
    for epoch in (FIRST, FIRST + 1):
        in_threads([lambda e=e, n=epoch: train(e, n) for e in exchangers[:2]])
        for exchanger in exchangers[:2]:
            exchanger.lateness.took_part = [True, True, False]
    assert [e.lateness.oldest for e in exchangers[:2]] == [2, 2]
    came = threading.Event()

    def late():
        time.sleep(0.3)
        came.set()
        return train(exchangers[2], FIRST)

    def ahead(exchanger):
        halo = train(exchanger, FIRST + 2)
        assert came.is_set(), "went on with rows that were too old"
        return halo

    halos = in_threads([*(lambda e=e: ahead(e) for e in exchangers[:2]), late])
    assert epochs_in(halos[0], 0) == {1: FIRST + 2, 2: FIRST}
    assert max(e.lateness.oldest for e in exchangers) == 2


def test_who_has_missed_a_deadline_is_not_waited_for_again_until_heard_of(boxes):
    """With a deadline that never comes, only peers that may still send anything hold a worker up."""
    exchangers = exchangers_of(boxes, patience_s=1e9)
    warm_up(exchangers)
    for exchanger in exchangers[:2]:
        exchanger.begin(FIRST)
        exchanger.lateness.missed.add(2)
    in_threads([lambda e=e: fetch(e, FIRST) for e in exchangers[:2]])
    exchangers[2].begin(FIRST)
    with boxes[2].changed:
        boxes[2].post_rows(boxes[2].index["l0/aggregate/forward"], FIRST, torch.zeros(int(COUNTS[2].sum()), WIDTH))
    assert boxes[0].wait(lambda: boxes[0].latest[2] == FIRST, time.monotonic() + 20)
    assert exchangers[0].lateness.is_expected(2)


def test_who_was_not_in_the_last_step_is_not_waited_for(boxes):
    """It is still in an earlier epoch."""
    exchangers = exchangers_of(boxes, patience_s=1e9)
    warm_up(exchangers)
    for exchanger in exchangers[:2]:
        exchanger.lateness.took_part = [True, True, False]
    halos = in_threads([lambda e=e: train(e, FIRST) for e in exchangers[:2]])
    assert epochs_in(halos[0], 0) == {1: FIRST, 2: FIRST - 1}


def test_nothing_is_reused_where_k_is_0(boxes):
    """However late a peer is."""
    exchangers = exchangers_of(boxes, patience_s=0.0, max_staleness=0)
    warm_up(exchangers)

    def late():
        time.sleep(0.2)
        return train(exchangers[2], FIRST)

    halos = in_threads([*(lambda e=e: train(e, FIRST) for e in exchangers[:2]), late])
    assert epochs_in(halos[0], 0) == {1: FIRST, 2: FIRST}
    assert [e.lateness.oldest for e in exchangers] == [0, 0, 0]


def test_a_silent_peer_is_named(boxes):
    """By the timeout, with what it did not send."""
    exchangers = exchangers_of(boxes, timeout_s=0.2)
    with pytest.raises(PeerError, match=r"Timed out after 0 s: worker 1, 2 sent no l0/aggregate/forward of epoch 0"):
        train(exchangers[0], 0)
