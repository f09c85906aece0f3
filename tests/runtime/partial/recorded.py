"""What a trainer does in every epoch, kept for the test that launched its worker."""

import numpy as np
import torch

from gnnplan.planner.program.cells import starting_cells
from gnnplan.runtime.execution.travel import finished


class Watched:
    """Gradients and state of a trainer."""

    def __init__(self, trainer):
        self._trainer, self._plain, self._total = trainer, trainer.peers.all_reduce, torch.empty(0)
        trainer.peers.all_reduce = self._all_reduce

    def _all_reduce(self, flat):
        total = finished(self._plain(flat))
        if total.shape[0] == 1:  # neither the evaluation's
            self._total = total[0, :-1].clone()
        return total

    def grad(self):
        return self._total

    def state(self):
        cycle, stored = self._trainer.cycle, self._trainer.executor.stored
        names = (*cycle.parameters, *starting_cells(cycle))
        return torch.cat([stored[name].reshape(-1) for name in names]).clone()


def train_recorded(trainer, num_epochs, *, before=lambda epoch: None, after=lambda record: None):
    """{name: array with a row per epoch}, and the test score; `before` and `after` are called in every epoch."""
    look = Watched(trainer)
    names = ("begun", "epoch", "members", "oldest", "loss", "grad", "state", "sent", "keys")
    found = {name: [] for name in names}
    epoch = 0
    while epoch < num_epochs:
        before(epoch)
        record = trainer.train_epoch(epoch, traced=True)
        after(record)
        grad = look.grad().numpy().copy()
        row = (
            epoch, record.epoch, record.num_members, record.oldest, record.loss, grad,
            look.state().numpy(), record.sent_bytes, " ".join(span[0] for span in record.spans),
        )  # fmt: skip
        for name, value in zip(names, row, strict=True):
            found[name].append(value)
        epoch = record.epoch + 1
    return {name: np.array(values) for name, values in found.items()} | {"score": trainer.evaluate()["test"]}
