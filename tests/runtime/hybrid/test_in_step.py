"""Workers in step tell slow links from waiting, however unequal their rows, and set up another split together."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist

from planner.program import Step
from runtime.full_batch import EpochRecord
from runtime.hybrid import in_step
from runtime.hybrid.exchanger import LevelExchanger
from runtime.hybrid.in_step import InStep
from runtime.recorder import Recorder
from tests.runtime.partial.meshed import in_threads

SIZE, WIDTH = 3, 4
STEP = Step("l0/aggregate", "aggregate", ("x",), ("h",), WIDTH, (WIDTH,))
RECEIVED = np.array([[0, 800, 0], [50, 0, 50], [0, 0, 0]])  # rows by worker and owner
COME_S = (2.0, 2.5, 3.0)  # from the epoch's begin to the exchange: worker 2 is last
TAKEN_S = np.array([[0.0, 8.0, 0.0], [0.1, 0.0, 0.3], [0.0, 0.0, 0.0]])  # from when all have come


class Together:
    """What `InStep` asks of torch.distributed, among threads."""

    ReduceOp = dist.ReduceOp

    def __init__(self):
        self._met, self._parts, self._own = threading.Barrier(SIZE, timeout=20), [None] * SIZE, threading.local()

    def be(self, rank):
        self._own.rank = rank

    def get_rank(self):
        return self._own.rank

    def barrier(self):
        self._met.wait()

    def all_reduce(self, tensor, op):
        self._parts[self._own.rank] = tensor.clone()
        self._met.wait()
        reduce = torch.amin if op == dist.ReduceOp.MIN else torch.amax
        reduced = reduce(torch.stack(self._parts), 0)
        self._met.wait()
        tensor.copy_(reduced)


class Looking:
    """An `Adjusting` that keeps what it was told of the exchange."""

    def __init__(self, rank, *, wants=False, log=None):
        recorder = Recorder(torch.device("cpu"))
        waiting_s = max(COME_S) - COME_S[rank]
        arrived_s = np.where(RECEIVED[rank] > 0, TAKEN_S[rank] + waiting_s, 0.0)
        sent, received = RECEIVED[:, rank].tolist(), RECEIVED[rank].tolist()
        nothing = torch.empty(0, dtype=torch.int64)
        exchanger = LevelExchanger(nothing, sent, received, 0, recorder, True, {STEP.name: arrived_s})
        self.model = SimpleNamespace(recorder=recorder, exchanger_of=lambda step: exchanger)
        self.rank, self.size, self.gathers, self.wants, self.log = rank, SIZE, [STEP], wants, log

    def is_few(self, num_rows):
        return num_rows == 0

    def look(self, record, exchanged):
        self.seen_s, self.floats = exchanged(STEP)
        return SimpleNamespace(is_other=self.wants, seconds=0.0)

    def take(self, choice):
        if self.rank == 0:
            time.sleep(0.05)  # the others have less to set up
        self.log.append("set up")
        return 0.05

    def adjusted(self, choice, rank, set_up_s, agreeing_s):
        self.agreeing_s = agreeing_s
        return rank, set_up_s


def record_of(rank):
    """An epoch on a worker's own clock."""
    start_s, key = 1000.0 * rank, f"{STEP.name}/exchange/forward"
    begin_s = start_s + COME_S[rank]
    spent_s = max(COME_S) - COME_S[rank] + TAKEN_S[rank].max()
    return EpochRecord(3, start_s, start_s + 20.0, 0.0, [(key, "communicate", begin_s, begin_s + spent_s)])


@pytest.fixture
def together(monkeypatch):
    fake = Together()
    monkeypatch.setattr(in_step, "dist", fake)
    return fake


def after(together, workers, then=lambda: None):
    """What every worker's `InStep` made of the epoch."""

    def one(looking):
        together.be(looking.rank)
        found = InStep(looking, 0.0).after(record_of(looking.rank))
        then()
        return found

    return in_threads([lambda looking=looking: one(looking) for looking in workers])


def test_a_slow_link_is_seen_beside_workers_with_little_to_receive(together):
    """Seconds count from when the last worker came to the exchange, though another was in it for no time at all."""
    workers = [Looking(rank) for rank in range(SIZE)]
    assert after(together, workers) == [(rank, None) for rank in range(SIZE)]
    np.testing.assert_allclose([looking.seen_s for looking in workers], [[0, 8, 0], [0.05, 0, 0.25], [0, 0, 0]])
    np.testing.assert_array_equal([looking.floats for looking in workers], RECEIVED * WIDTH)
    assert all(looking.agreeing_s > 0 for looking in workers), "the reductions take time"


def test_all_set_up_what_one_wants_and_go_on_together(together):
    """Nobody begins the next epoch before all are set up: moments in it are counted from its begin."""
    log = []
    workers = [Looking(rank, wants=rank == 1, log=log) for rank in range(SIZE)]
    assert after(together, workers, lambda: log.append("begins")) == [(rank, 0.05) for rank in range(SIZE)]
    assert log == ["set up"] * SIZE + ["begins"] * SIZE
