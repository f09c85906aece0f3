"""Workers in step tell slow links from waiting, however unequal their rows, and set up another split together."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gnnplan.planner.steps import Step
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.hybrid import in_step
from gnnplan.runtime.hybrid.adjusting import Choice
from gnnplan.runtime.hybrid.exchanger import LevelExchanger
from gnnplan.runtime.hybrid.in_step import InStep
from gnnplan.runtime.recorder import Recorder

SIZE, WIDTH = 3, 4
STEP = Step("l0/aggregate", "aggregate", ("x",), ("h",), WIDTH, (WIDTH,))
KEY = f"{STEP.name}/exchange/forward"
RECEIVED = np.array([[0, 800, 0], [50, 0, 50], [0, 0, 0]])  # rows by worker and owner
COME_S = (2.0, 2.5, 3.0)  # from the epoch's begin to the exchange: worker 2 is last
TAKEN_S = np.array([[0.0, 8.0, 0.0], [0.1, 0.0, 0.3], [0.0, 0.0, 0.0]])  # from when all have come
AHEAD_S = (0.0, 4321.5, -77.25)  # each worker's clock, of worker 0's
SET_UP_S = 30.0
NOTHING = np.zeros((1, 0), bool)


class Worker:
    """One worker: what it looks at an epoch with, keeping what it was told, and its `InStep`."""

    def __init__(self, rank, wants=()):
        waiting_s = max(COME_S) - COME_S[rank]
        arrived_s = np.where(RECEIVED[rank] > 0, TAKEN_S[rank] + waiting_s, 0.0)
        sent, received = RECEIVED[:, rank].tolist(), RECEIVED[rank].tolist()
        nothing, self.recorder = torch.empty(0, dtype=torch.int64), Recorder(torch.device("cpu"))
        exchanger = LevelExchanger(nothing, sent, received, 0, self.recorder, True, {STEP.name: arrived_s})
        self.model = SimpleNamespace(recorder=self.recorder, exchanger_of=lambda step: exchanger)
        self.rank, self.size, self.gathers, self.wants, self.taken = rank, SIZE, [STEP], wants, []
        self.in_step = InStep(self, 0.0)
        self.moved, self.begun, self.late_s = [], 0, 0.0

    def begin(self):
        self.begun += 1

    def is_few(self, num_rows):
        return num_rows == 0

    def look(self, record, exchanged, *, moved, waited_s):
        self.seen_s, self.floats = exchanged(STEP)
        self.moved.append(moved)
        self.waited_s = waited_s
        return Choice(record.epoch, NOTHING, None, record.epoch in self.wants, 0.0, 0.0, 0.0, 0.0)

    def take(self, choice):
        self.taken.append(choice.epoch)
        self.late_s += SET_UP_S
        return SET_UP_S

    def adjusted(self, choice, rank, set_up_s, agreeing_s):
        return choice.epoch, rank, set_up_s, agreeing_s

    def train(self, epoch, length_s):
        """What it tells after the epoch's exchange, on its own clock."""
        self.in_step.before(epoch)
        self.late_s += length_s - 100.0
        begin_s = 4000.0 + 100 * epoch + self.late_s + AHEAD_S[self.rank]
        come_s = begin_s + COME_S[self.rank]
        spent_s = max(COME_S) - COME_S[self.rank] + TAKEN_S[self.rank].max()
        self.recorder.spans = [(KEY, "communicate", come_s, come_s + spent_s)]
        self.record = EpochRecord(epoch, begin_s, begin_s + 20.0, 0.0, self.recorder.spans)
        return self.in_step.told()

    def after(self, summed):
        """What it makes of the epoch and what all told."""
        self.in_step.hear(summed)
        return self.in_step.after(self.record)


@pytest.fixture
def trained(monkeypatch):
    """Has workers train epochs together; gives what each made of each.

    What they ask each other is answered by what any of them wants of the epoch.
    """
    now = SimpleNamespace(rank=0)

    def all_reduce(answers):
        assert answers.tolist() == [float(now.epoch in now.workers[now.rank].wants)]
        now.asked.append((now.epoch, now.rank))
        answers.fill_(float(any(now.epoch in worker.wants for worker in now.workers)))

    monkeypatch.setattr(in_step, "dist", SimpleNamespace(get_rank=lambda: now.rank, all_reduce=all_reduce))
    monkeypatch.setattr(in_step, "seconds_behind", lambda device: -AHEAD_S[now.rank])

    def each(workers, what):
        found = []
        for worker in workers:
            now.rank = worker.rank
            found.append(what(worker))
        return found

    def train(workers, num_epochs, lengths_s=None):
        found, now.workers, now.asked = [], workers, []
        for epoch in range(num_epochs):
            now.epoch, length_s = epoch, lengths_s[epoch] if lengths_s else 100.0
            told = each(workers, lambda worker, epoch=epoch, length_s=length_s: worker.train(epoch, length_s))
            found.append(each(workers, lambda worker, told=told: worker.after(torch.stack(told).sum(0))))
            assert [rank for when, rank in now.asked if when == epoch] in ([], list(range(SIZE)))
        return found

    return train


def test_a_slow_link_is_seen_beside_workers_with_little_to_receive(trained):
    """Seconds count from when the last worker came to the exchange, though another was in it for no time at all.

    Clocks differ by more than an hour, and run on over what moments are told without.
    """
    workers = [Worker(rank) for rank in range(SIZE)]
    trained(workers, 3)
    seen_s = [worker.seen_s for worker in workers]
    np.testing.assert_allclose(seen_s, [[0, 8, 0], [0.05, 0, 0.25], [0, 0, 0]], atol=1e-5)
    np.testing.assert_array_equal([worker.floats for worker in workers], RECEIVED * WIDTH)
    # Forward, and backward again.
    np.testing.assert_allclose([worker.waited_s for worker in workers], [2.0, 1.0, 0.0], atol=1e-5)


def test_all_set_up_what_one_wants_after_it_has_told_them(trained):
    """Worker 1 wants another split after epoch 1: it says so in epoch 2, after which all set it up, and goes on."""
    workers = [Worker(rank, wants=(1,) if rank == 1 else ()) for rank in range(SIZE)]
    found = trained(workers, 4)
    assert [[set_up_s for _, _, set_up_s, _ in epoch] for epoch in found] == [
        [None] * SIZE,
        [None] * SIZE,
        [SET_UP_S] * SIZE,
        [None] * SIZE,
    ]
    assert [worker.taken for worker in workers] == [[2]] * SIZE


def test_what_was_agreed_on_is_set_up_though_the_next_epoch_says_otherwise(trained, monkeypatch):
    """Else one worker would change while the one that asked for it does not."""
    worker = Worker(1, wants=(1,))
    taken = []
    monkeypatch.setattr(worker, "take", lambda choice: taken.append(choice.is_other) or 0.0)
    trained([Worker(0), worker, Worker(2)], 4)
    assert taken == [True]


def test_clocks_are_asked_for_now_and_then(trained):
    """Before the first epoch and every two hundredth; what that took is recorded once."""
    asked = [agreeing_s > 0 for ((_, _, _, agreeing_s), *_) in trained([Worker(rank) for rank in range(SIZE)], 202)]
    assert [epoch for epoch, is_asked in enumerate(asked) if is_asked] == [0, 200]


def test_an_epoch_far_longer_or_shorter_than_usual_has_moved(trained):
    """Whoever is asked finds the same. From there on it is usual, so that the way back moves too."""
    workers = [Worker(rank) for rank in range(SIZE)]
    trained(workers, 10, [100, 100, 104, 99, 130, 131, 128, 100, 101, 80])
    assert [worker.moved for worker in workers] == [[epoch in (4, 7, 9) for epoch in range(10)]] * SIZE


def test_after_an_epoch_that_moved_nobody_waits_for_the_next_to_be_told(trained):
    """Worker 1 wants another split after an epoch far longer than before: all set it up at once, and once."""
    workers = [Worker(rank, wants=(2,) if rank == 1 else ()) for rank in range(SIZE)]
    trained(workers, 5, [100, 100, 150, 150, 150])
    assert [worker.taken for worker in workers] == [[2]] * SIZE


def test_what_setting_up_takes_moves_no_epoch(trained):
    """Nor do epochs after it that are as long as the one before."""
    workers = [Worker(rank, wants=(1,) if rank == 1 else ()) for rank in range(SIZE)]
    trained(workers, 7)
    assert [worker.taken for worker in workers] == [[2]] * SIZE
    assert not any(any(worker.moved) for worker in workers)


def test_memory_for_any_split_is_taken_before_the_first_epoch(trained):
    """Once."""
    workers = [Worker(rank) for rank in range(SIZE)]
    trained(workers, 3)
    assert [worker.begun for worker in workers] == [1] * SIZE
