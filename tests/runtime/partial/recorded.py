"""What a trainer does in every epoch, kept for the test that launched its worker."""

import numpy as np
import torch

from gnnplan.planner.program.cells import starting_cells


def packed_state(optimizer):
    """float32 [S]: all parameters, then the optimizer's tensors of each, in the order of their names."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = [value for p in parameters for _, value in sorted(optimizer.state[p].items()) if torch.is_tensor(value)]
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in (*parameters, *states)])


class Layered:
    """Gradients and state of a trainer with an autograd graph and an optimizer."""

    def __init__(self, trainer):
        self._trainer = trainer

    def grad(self):
        return torch.cat([parameter.grad.reshape(-1) for parameter in self._trainer.parameters])

    def state(self):
        return packed_state(self._trainer.optimizer)


class OfProgram:
    """Those of a trainer that plays a program."""

    def __init__(self, trainer):
        self._trainer, self._plain, self._total = trainer, trainer.peers.all_reduce, torch.empty(0)
        trainer.peers.all_reduce = self._all_reduce

    def _all_reduce(self, flat):
        total = self._plain(flat)
        if total.shape[0] == 1:  # neither the evaluation's
            self._total = total[0, :-1].clone()
        return total

    def grad(self):
        return self._total

    def state(self):
        cycle, stored = self._trainer.cycle, self._trainer.executor.stored
        names = (*cycle.parameters, *starting_cells(cycle))
        return torch.cat([stored[name].reshape(-1) for name in names]).clone()


def train_recorded(trainer, num_epochs, *, before=lambda epoch: None, after=lambda record: None, look=Layered):
    """{name: array with a row per epoch}, and the test score; `before` and `after` are called in every epoch."""
    look = look(trainer)
    names = ("begun", "epoch", "members", "oldest", "loss", "grad", "state", "sent", "keys", "changed", "num_cached")
    found = {name: [] for name in names}
    epoch = 0
    while epoch < num_epochs:
        before(epoch)
        record = trainer.train_epoch(epoch, traced=True)
        after(record)
        adjusted = record.adjusted or {"changed": False, "num_cached": -1}
        grad = look.grad().numpy().copy()
        row = (
            epoch, record.epoch, record.num_members, record.oldest, record.loss, grad,
            look.state().numpy(), record.sent_bytes, " ".join(span[0] for span in record.spans),
            adjusted["changed"], adjusted["num_cached"],
        )  # fmt: skip
        for name, value in zip(names, row, strict=True):
            found[name].append(value)
        epoch = record.epoch + 1
    return {name: np.array(values) for name, values in found.items()} | {"score": trainer.evaluate()["test"]}
