"""Between epochs a hybrid trainer has decided what is made in the next one, from what all told with their gradients."""

from types import SimpleNamespace

import pytest
import torch

from gnnplan.runtime.full_batch import EpochRecord, FullBatchTrainer
from gnnplan.runtime.hybrid.trainer import HybridTrainer
from gnnplan.runtime.measured import UNTIMED_EPOCHS

NUM_EPOCHS = UNTIMED_EPOCHS + 4
SPAN = ("l0/multiply/forward", "compute", 0.0, 1.0)


class Noting:
    """Decides nothing, and keeps what it was asked and told."""

    def __init__(self, calls):
        self.calls, self.heard = calls, []

    def before(self, epoch):
        self.calls.append(("before", epoch))

    def after(self, record):
        self.calls.append(("after", record.epoch, list(record.spans)))
        return SimpleNamespace(model_dump=lambda: {"epoch": record.epoch})

    def told(self):
        return torch.tensor([7.0, 8.0])

    def hear(self, summed):
        self.heard.append(summed.tolist())


def trainer_of(in_step):
    made = HybridTrainer.__new__(HybridTrainer)
    made.in_step, made.num_epochs = in_step, NUM_EPOCHS
    return made


@pytest.fixture
def calls(monkeypatch):
    """What was done, in order; epochs take no time."""
    done = []

    def train_epoch(self, epoch, *, traced):
        done.append(("train", epoch, traced))
        return EpochRecord(epoch, 0.0, 1.0, 0.0, [SPAN] if traced else [])

    monkeypatch.setattr(FullBatchTrainer, "train_epoch", train_epoch)
    return done


@pytest.mark.parametrize("traced", [False, True])
def test_where_the_split_stays_epochs_are_plain_ones(calls, traced):
    """Traced where that is asked for, and nothing is told along with the gradients."""
    made = trainer_of(None)
    record = made.train_epoch(UNTIMED_EPOCHS, traced=traced)
    assert calls == [("train", UNTIMED_EPOCHS, traced)]
    assert (record.adjusted, len(record.spans), made._told()) == (None, int(traced), [])


def test_it_is_decided_once_warm_and_not_after_the_last_epoch(calls):
    """Before every epoch workers may ask what time it is."""
    made = trainer_of(Noting(calls))
    records = [made.train_epoch(epoch, traced=True) for epoch in range(NUM_EPOCHS)]
    decided = list(range(UNTIMED_EPOCHS, NUM_EPOCHS - 1))
    assert [what for what, *_ in calls[:3]] == ["before", "train", "before"]
    assert [epoch for what, epoch, *_ in calls if what == "before"] == list(range(NUM_EPOCHS))
    assert [epoch for what, epoch, *_ in calls if what == "after"] == decided
    assert [record.epoch for record in records if record.adjusted] == decided
    assert records[UNTIMED_EPOCHS].adjusted == {"epoch": UNTIMED_EPOCHS}


def test_what_decides_sees_all_tasks_though_none_are_kept(calls):
    """Epochs are traced for it, and their spans given away only where that is asked for."""
    made = trainer_of(Noting(calls))
    records = [made.train_epoch(UNTIMED_EPOCHS, traced=traced) for traced in (False, True)]
    assert [record.spans for record in records] == [[], [SPAN]]
    assert [call[2] for call in calls if call[0] == "train"] == [True, True]
    assert [call[2] for call in calls if call[0] == "after"] == [[SPAN], [SPAN]]


def test_what_workers_tell_travels_behind_their_gradients():
    """Added up with them, and taken out again; a parameter without a gradient counts as zeros."""
    made = trainer_of(Noting([]))
    made.parameters = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    made.num_parameters = 3
    made.parameters[0].grad = torch.tensor([1.0, 2.0])
    flat = made._flattened(torch.tensor(5.0))
    assert flat.tolist() == [1, 2, 0, 5, 7, 8]
    loss = made._unflattened(2 * flat)
    assert float(loss) == 10
    assert made.in_step.heard == [[14, 16]]
    assert torch.cat([parameter.grad for parameter in made.parameters]).tolist() == [2, 4, 0]
