"""When checkpoints are due, and what a worker does that is told to end."""

import numpy as np
import pytest
import torch

from gnnplan.planner.checkpoints import Frequency
from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.checkpoint import keeper as module
from gnnplan.runtime.checkpoint.keeper import Keeper
from gnnplan.runtime.checkpoint.stopping import StopRequest


class State:
    """Two numbers that training changes."""

    def __init__(self):
        self.weight = torch.zeros(2)

    def held(self):
        return {"parameter/w": self.weight}


class Written:
    """In place of a thread: what it was given, and when it is busy."""

    def __init__(self):
        self.begun, self.is_busy, self.kept, self.ended = {}, False, [], False

    def begin(self, epoch, arrays):
        self.begun[epoch] = arrays
        self.kept.append(epoch)

    def finish(self, _):
        self.is_busy = False

    def end(self, _):
        self.ended = True


def keeper_of(frequency, *, num_epochs=100, epoch=0, **changes):
    """One worker's alone."""
    fields = {"in_step": True, "losses": [], "stop": StopRequest(is_deaf=True)} | changes
    return Keeper(State(), Written(), frequency, num_epochs=num_epochs, epoch=epoch, **fields)


def train(keeper, epochs, epoch_s=1.0):
    """Each makes the weights one larger."""
    for epoch in range(keeper.epoch, keeper.epoch + epochs):
        keeper.state.weight.add_(1)
        keeper.after(epoch, epoch_s, float(epoch))


def test_every_so_many_epochs():
    """Copies of the weights of then, with the losses so far; none after the last epoch."""
    keeper = keeper_of(Frequency(epochs=3), num_epochs=9)
    train(keeper, 9)
    assert list(keeper.writer.begun) == [3, 6]
    for epoch, arrays in keeper.writer.begun.items():
        assert arrays["parameter/w"].tolist() == [epoch, epoch]
        assert arrays["losses"].tolist() == list(range(epoch))


def test_going_on_counts_from_there():
    """Losses of an earlier run come first."""
    keeper = keeper_of(Frequency(epochs=4), epoch=6, losses=[9.0] * 6)
    train(keeper, 5)
    assert list(keeper.writer.begun) == [10]
    assert keeper.losses_before == (9.0,) * 6
    assert len(keeper.writer.begun[10]["losses"]) == 10


def test_every_so_many_seconds(monkeypatch):
    """By the clock, and however short epochs are."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    keeper = keeper_of(Frequency(seconds=10.0), _begun_s=0.0, num_epochs=1000)
    for _ in range(35):
        train(keeper, 1)
        now[0] += 1.0
    assert list(keeper.writer.begun) == [11, 21, 31]


def test_never_is_never():
    """But for the last words of one that is told to end."""
    keeper = keeper_of(Frequency())
    train(keeper, 50)
    assert not keeper.writer.begun
    keeper.stop.number = 15
    with pytest.raises(SystemExit, match="143"):
        train(keeper, 1)
    assert list(keeper.writer.begun) == [51]
    assert keeper.writer.ended


def test_one_that_is_being_written_is_not_waited_for():
    """The next comes when it is there."""
    keeper = keeper_of(Frequency(epochs=2))
    keeper.writer.is_busy = True
    train(keeper, 5)
    assert not keeper.writer.begun
    keeper.writer.is_busy = False
    train(keeper, 3)
    assert list(keeper.writer.begun) == [6, 8]


def test_short_epochs_agree_rarely(monkeypatch):
    """About once a second, and after 64 epochs at most; long ones every time."""
    asked = []
    monkeypatch.setattr(module, "largest", lambda own: asked.append(own) or list(own))
    for epoch_s, num_asked in ((0.6, 64), (0.05, 4), (1e-5, 1)):
        asked.clear()
        train(keeper_of(Frequency(), num_epochs=1000), 64, epoch_s)
        assert len(asked) == num_asked


def test_another_workers_signal_ends_this_one_too(monkeypatch):
    """All stop after the same epoch, with the number of the signal that one of them got."""
    keeper = keeper_of(Frequency())
    monkeypatch.setattr(module, "largest", lambda own: [own[0], 2.0, *own[2:]])
    with pytest.raises(SystemExit, match="130"):
        train(keeper, 1)
    assert list(keeper.writer.begun) == [1]


def test_without_room_for_a_copy_training_waits(monkeypatch):
    """What is written is then the memory that is trained itself."""
    monkeypatch.setattr(module, "available_bytes", lambda: 4)
    keeper = keeper_of(Frequency(epochs=1))
    train(keeper, 1)
    assert np.shares_memory(keeper.writer.begun[1]["parameter/w"], keeper.state.weight.numpy())


def test_a_disk_that_takes_too_long_ends_training_rather_than_numbers(monkeypatch):
    """What is being written must not change."""
    monkeypatch.setattr(module, "available_bytes", lambda: 4)
    keeper = keeper_of(Frequency(epochs=1), longest_s=7.0)
    monkeypatch.setattr(keeper.writer, "begin", lambda *_: setattr(keeper.writer, "is_busy", True))
    monkeypatch.setattr(keeper.writer, "finish", lambda _: None)
    with pytest.raises(RunFailedError, match="not written within 7 s"):
        train(keeper, 1)


def test_the_peak_is_noted_before_the_first_copy():
    """Which takes memory that training does not."""
    seen = []
    keeper = keeper_of(Frequency(epochs=2), before_copy=lambda: seen.append(len(keeper.writer.begun)))
    train(keeper, 4)
    assert seen == [0, 1]


def test_before_training_a_signal_ends_at_once():
    """Nothing is lost; afterwards it is noted."""
    stop = StopRequest(is_deaf=True)
    with pytest.raises(SystemExit, match="143"):
        stop._take(15, None)
    stop.begin_training()
    stop._take(2, None)
    assert stop.number == 2


def test_steps_that_went_on_without_this_worker_have_a_loss_too():
    """Else the loss with number k would be of another epoch after going on."""
    keeper = keeper_of(Frequency(epochs=4), epoch=2, losses=[9.0] * 2)
    keeper.after(2, 1.0, 2.0)
    keeper.after(5, 1.0, 5.0)
    assert keeper.writer.begun[6]["losses"].tolist() == [9, 9, 2, 5, 5, 5]
