"""Of one worker: which epoch it is in, how old rows may be in it, whom it still waits for, and what it then takes."""

from types import SimpleNamespace

import pytest
import torch
from meshed import slots_between

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Mailbox, PeerError, bytes_of

NAME, WIDTH = "l0/aggregate/forward", 3
COUNTS = [[0, 1], [2, 0]]  # rows from p to q
EPOCHS, CLOSING, K = 20, 4, 2
LATER = WARM_UP_EPOCHS + K


def lateness_of(counts=COUNTS, *, timeout_s=20.0):
    """Worker 0's, whose messages to the other one go nowhere."""
    box = Mailbox(0, len(counts), slots_between(counts, WIDTH)[0])
    box.open(SimpleNamespace(post=lambda peer, message, key: None))
    decision = PartialReduceDecision(max_staleness=K, min_group=1, closing_epochs=CLOSING, contributing=((1, 1),))
    return Lateness.of(box, decision, EPOCHS, timeout_s)


def come(late, version):
    """Both rows of worker 1 in an epoch are here."""
    rows = torch.full((COUNTS[1][0], WIDTH), float(version))
    late.mailbox.room_for(1, 0, version, rows.nbytes)[:] = bytes_of(rows)
    late.mailbox.arrived(1, 0, version, memoryview(b""), 0.0)


def newest(late):
    """What worker 0 takes for the halo rows of its epoch."""
    late.send(NAME, torch.zeros(COUNTS[0][1], WIDTH))
    return late.receive(NAME, torch.empty(COUNTS[1][0], WIDTH)).tolist()


def test_saying_an_epoch_again_changes_nothing():
    """Every exchange says it; only with another epoch what was late is forgiven."""
    late = lateness_of()
    late.begin(LATER)
    late.missed.add(1)
    late.oldest = 2
    late.begin(LATER)
    assert (late.epoch, late.missed, late.oldest) == (LATER, {1}, 2)
    late.begin(LATER + 1)
    assert (late.epoch, late.missed, late.oldest) == (LATER + 1, set(), 0)


def test_an_evaluation_is_no_epoch():
    """Nothing is late in it, and before the first epoch there is none either."""
    late = lateness_of()
    late.begin(LATER)
    late.begin(None)
    with pytest.raises(AssertionError):
        _ = late.epoch


def ages(late):
    """How old rows may be in each epoch of the run."""
    found = []
    for epoch in range(EPOCHS):
        late.begin(epoch)
        found.append(late.staleness)
    return found


def test_rows_may_be_old_between_the_warm_up_and_the_closing():
    """Its first epoch included, to which a worker may come from an earlier one."""
    last = [0] * (CLOSING - 1)
    assert ages(lateness_of()) == [0] * WARM_UP_EPOCHS + [K] * (EPOCHS - WARM_UP_EPOCHS - len(last)) + last


def test_who_was_late_is_waited_for_again_once_it_is_heard_of():
    """Who took no part in the step before is not, whatever has come of it."""
    late = lateness_of()
    late.begin(LATER)
    assert late.is_expected(1)
    late.missed.add(1)
    assert not late.is_expected(1)
    come(late, LATER)
    assert late.is_expected(1)
    late.took_part[1] = False
    assert not late.is_expected(1)


def test_rows_of_the_epoch_are_taken_as_they_are():
    """With how they came; nobody was late."""
    late = lateness_of()
    late.begin(LATER)
    come(late, LATER)
    assert newest(late) == [[float(LATER)] * WIDTH] * 2
    assert late.arrivals[NAME][1].version == LATER
    assert (late.oldest, late.missed) == (0, set())


@pytest.mark.parametrize("age", [1, K])
def test_after_the_deadline_older_rows_stand_in(age):
    """No older than K epochs; the peer has missed a deadline."""
    late = lateness_of()
    late.pace.deadline_s = lambda name: 0.0
    late.begin(LATER)
    come(late, LATER - age)
    assert newest(late) == [[float(LATER - age)] * WIDTH] * 2
    assert (late.oldest, late.missed) == (age, {1})


def test_rows_that_are_too_old_are_never_used():
    """The peer that sends no others in time is named."""
    late = lateness_of(timeout_s=0.02)
    late.pace.deadline_s = lambda name: 0.0
    late.begin(LATER)
    come(late, LATER - K - 1)
    with pytest.raises(PeerError, match=rf"worker 1 sent no {NAME} of epoch {LATER - K} or later") as raised:
        newest(late)
    assert raised.value.missing == (1,)


def test_without_a_halo_there_is_nobody_to_wait_for():
    """Two workers that share no edge."""
    late = lateness_of([[0, 0], [0, 0]])
    late.begin(LATER)
    late.send(NAME, torch.zeros(0, WIDTH))
    late.receive(NAME, torch.empty(0, WIDTH))
    assert (late.oldest, late.missed, late.arrivals) == (0, set(), {NAME: {}})
