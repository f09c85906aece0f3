"""Groups: the same for all, majorities, nobody missing for longer than allowed, late ones named."""

import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import torch.distributed as dist
from meshed import in_threads, meshed

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS, majority
from gnnplan.runtime.partial.mailbox import PeerError
from gnnplan.runtime.partial.rounds import Group, Rounds

FIRST = WARM_UP_EPOCHS  # the first round that may be without somebody


class SetPace:
    """A pace whose step deadline is some seconds after the moment it is asked about."""

    def __init__(self, seconds):
        self.seconds = seconds

    def step_deadline_s(self, since_s=None):
        return (time.monotonic() if since_s is None else since_s) + self.seconds


def rounds_of(boxes, *, max_staleness=2, num_epochs=100, timeout_s=20.0, min_group=None):
    """One for each worker, over one store."""
    size, store = len(boxes), dist.HashStore()
    decision = PartialReduceDecision(
        max_staleness=max_staleness, min_group=min_group or majority(size), contributing=((1,) * size,)
    )
    return [Rounds(box, decision, store, num_epochs, timeout_s) for box in boxes]


def everyone(_):
    return True


def warm_up(rounds, pace):
    """The rounds of the warm-up, which all take part in."""
    for number in range(FIRST):
        joined = in_threads([lambda r=r, n=number: r.join(n, everyone, pace) for r in rounds])
        assert {group.members for group in joined} == {tuple(range(len(rounds)))}


def test_all_that_are_ready_step_together_before_the_deadline():
    """Nobody waits for the deadline where all are there."""
    with meshed(4) as boxes:
        rounds, pace = rounds_of(boxes), SetPace(1e6)
        warm_up(rounds, pace)
        groups = in_threads([lambda r=r: r.join(FIRST, everyone, pace) for r in rounds])
        assert groups == [groups[0]] * 4
        assert groups[0].members == (0, 1, 2, 3)
        assert groups[0].last_rounds == (FIRST,) * 4


def test_who_is_not_expected_is_not_waited_for():
    """The others step before any deadline; the late one joins the next round, with what was missed known."""
    with meshed(4) as boxes:
        rounds, pace = rounds_of(boxes), SetPace(1e6)
        warm_up(rounds, pace)
        groups = in_threads([lambda r=r: r.join(FIRST, lambda peer: peer != 3, pace) for r in rounds[:3]])
        assert {group.members for group in groups} == {(0, 1, 2)}
        again = [lambda r=r: r.join(FIRST + 1, everyone, pace) for r in rounds[:3]]
        late = lambda: rounds[3].join(FIRST, everyone, pace)  # noqa: E731
        groups = in_threads([*again, late])
        assert {group.members for group in groups} == {(0, 1, 2, 3)}
        assert [r.number for r in rounds] == [FIRST + 1] * 4
        assert [r.missed for r in rounds] == [{}, {}, {}, {FIRST: (0, 1, 2)}]


def test_after_the_deadline_a_majority_steps():
    """An expected worker is waited for until then, and not longer."""
    with meshed(3) as boxes:
        rounds = rounds_of(boxes)
        warm_up(rounds, SetPace(1e6))
        groups = in_threads([lambda r=r: r.join(FIRST, everyone, SetPace(0.05)) for r in rounds[:2]])
        assert {group.members for group in groups} == {(0, 1)}


@pytest.mark.parametrize("num_ready", [1, 2])
def test_fewer_than_the_least_group_wait_for_more(num_ready):
    """Half of four is no majority, however late it is."""
    with meshed(4) as boxes:
        rounds, pace = rounds_of(boxes), SetPace(0.0)
        warm_up(rounds, pace)
        release = threading.Event()

        def join_later(r):
            assert release.wait(20)
            return r.join(FIRST, everyone, pace)

        def let_go():
            time.sleep(0.2)
            assert FIRST not in boxes[0].groups
            release.set()

        first, last = rounds[:num_ready], rounds[num_ready:3]
        calls = [
            *(lambda r=r: r.join(FIRST, everyone, pace) for r in first),
            *(lambda r=r: join_later(r) for r in last),
        ]
        *groups, _ = in_threads([*calls, let_go])
        assert {group.members for group in groups} == {(0, 1, 2)}


def test_nobody_is_missing_for_longer_than_k_rounds():
    """After K rounds without it, the others wait for a worker, whatever the deadline; then it is a member."""
    with meshed(3) as boxes:
        rounds, pace = rounds_of(boxes, max_staleness=2), SetPace(0.0)
        warm_up(rounds, pace)
        for number in (FIRST, FIRST + 1):
            in_threads([lambda r=r, n=number: r.join(n, everyone, pace) for r in rounds[:2]])
        calls = [lambda r=r: r.join(FIRST + 2, everyone, pace) for r in rounds[:2]]

        def come_late():
            time.sleep(0.2)
            assert FIRST + 2 not in boxes[2].groups
            return rounds[2].join(FIRST, everyone, pace)

        groups = in_threads([*calls, come_late])
        assert groups == [groups[0]] * 3
        assert groups[0].members == (0, 1, 2)


def test_who_does_not_come_is_named_in_time():
    """A worker that cannot be missing any longer ends the run with its name after the timeout."""
    with meshed(3) as boxes:
        rounds, pace = rounds_of(boxes, max_staleness=1, timeout_s=0.3), SetPace(0.0)
        warm_up(rounds, pace)
        in_threads([lambda r=r: r.join(FIRST, everyone, pace) for r in rounds[:2]])
        with pytest.raises(PeerError, match=f"Timed out after 0 s: worker 2 was not ready for step {FIRST + 1}"):
            in_threads([lambda r=r: r.join(FIRST + 1, everyone, pace) for r in rounds[:2]])


def test_the_last_round_is_everybodys():
    """However late one of them is."""
    with meshed(3) as boxes:
        rounds, pace = rounds_of(boxes, num_epochs=FIRST + 1), SetPace(0.0)
        warm_up(rounds, pace)

        def late():
            time.sleep(0.1)
            return rounds[2].join(FIRST, everyone, pace)

        groups = in_threads([*(lambda r=r: r.join(FIRST, everyone, pace) for r in rounds[:2]), late])
        assert {group.members for group in groups} == {(0, 1, 2)}


@pytest.mark.parametrize(("seed", "min_group"), [(0, 3), (1, 3), (2, 1), (3, 1)])
def test_whatever_the_order_all_agree_and_the_bounds_hold(seed, min_group):
    """Random lateness: one group a round for all, gaps of at most K rounds."""
    size, num_epochs, max_staleness = 5, 30, 3
    with meshed(size) as boxes:
        rounds = rounds_of(boxes, max_staleness=max_staleness, num_epochs=num_epochs, min_group=min_group)

        def train(rank):
            rng, joined, epoch = np.random.default_rng([seed, rank]), {}, 0
            while epoch < num_epochs:
                time.sleep(float(rng.exponential(0.002 if rng.random() < 0.8 else 0.02)))
                group = rounds[rank].join(epoch, everyone, SetPace(0.003))
                joined[rounds[rank].number] = (epoch, group)
                epoch = rounds[rank].number + 1
            return joined

        by_worker = in_threads([lambda rank=rank: train(rank) for rank in range(size)])
    for number in range(num_epochs):
        groups = [joined[number][1] for joined in by_worker if number in joined]
        assert groups == [groups[0]] * len(groups)
        assert groups[0].members == tuple(rank for rank, joined in enumerate(by_worker) if number in joined)
        assert len(groups[0].members) >= min_group
    for joined in by_worker:
        assert max(number - begun for number, (begun, _) in joined.items()) <= max_staleness
        assert max(b - a for a, b in pairwise(sorted(joined))) <= max_staleness + 1
        assert {*range(FIRST), num_epochs - 1} <= joined.keys()


def test_a_group_knows_when_everyone_took_part_last():
    """Members take part now, the others when they did before."""
    group = Group(members=(0, 1, 2), last_rounds=(6, 6, 6)).then(7, (0, 2)).then(8, (0, 1))
    assert group == Group(members=(0, 1), last_rounds=(8, 8, 7))


def test_a_group_that_nobody_told_of_is_read_from_the_store():
    """By who hears that others are ready for a later round: it waits for no message."""
    with meshed(4) as boxes:
        rounds, pace = rounds_of(boxes), SetPace(1e6)
        warm_up(rounds, pace)
        know = boxes[3].know_group

        def unless_told(number, group):
            if not threading.current_thread().name.startswith("from worker"):
                know(number, group)

        boxes[3].know_group = unless_told
        groups = in_threads([lambda r=r: r.join(FIRST, lambda peer: peer != 3, pace) for r in rounds[:3]])
        assert {group.members for group in groups} == {(0, 1, 2)}
        again = [lambda r=r: r.join(FIRST + 1, everyone, pace) for r in rounds[:3]]

        def late():
            assert boxes[3].wait(lambda: min(boxes[3].ready[:3]) > FIRST, time.monotonic() + 20)
            return rounds[3].join(FIRST, everyone, pace)

        assert {group.members for group in in_threads([*again, late])} == {(0, 1, 2, 3)}


def test_nobody_is_missing_before_an_epoch_that_sends_kept_rows_anew():
    """Where a training goes on, all send them until the next regular refresh: who came late would never send them."""
    with meshed(3) as boxes:
        rounds, pace = rounds_of(boxes), SetPace(0.05)
        warm_up(rounds, SetPace(1e6))
        for each in rounds:
            each.refresh_until = FIRST + 2
        release = threading.Event()

        def late():
            assert release.wait(20)
            return rounds[2].join(FIRST, everyone, pace)

        def let_go():
            time.sleep(0.3)
            assert FIRST not in boxes[0].groups
            release.set()

        *groups, _ = in_threads([*(lambda r=r: r.join(FIRST, everyone, pace) for r in rounds[:2]), late, let_go])
        assert {group.members for group in groups} == {(0, 1, 2)}
        groups = in_threads([lambda r=r: r.join(FIRST + 1, everyone, pace) for r in rounds[:2]])
        assert {group.members for group in groups} == {(0, 1)}
