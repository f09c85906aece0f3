"""What a trainer does in every epoch, kept for the test that launched its worker."""

import numpy as np
import torch


def packed_state(optimizer):
    """float32 [S]: all parameters, then the optimizer's tensors of each, in the order of their names."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = [value for p in parameters for _, value in sorted(optimizer.state[p].items()) if torch.is_tensor(value)]
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in (*parameters, *states)])


def train_recorded(trainer, num_epochs, *, before=lambda epoch: None, after=lambda record: None):
    """{name: array with a row per epoch}, and the test score; `before` and `after` are called in every epoch."""
    names = ("begun", "epoch", "members", "oldest", "loss", "grad", "state", "sent", "keys", "changed", "num_cached")
    found = {name: [] for name in names}
    epoch = 0
    while epoch < num_epochs:
        before(epoch)
        record = trainer.train_epoch(epoch, traced=True)
        after(record)
        adjusted = record.adjusted or {"changed": False, "num_cached": -1}
        grad = torch.cat([parameter.grad.reshape(-1) for parameter in trainer.parameters]).numpy().copy()
        row = (
            epoch, record.epoch, record.num_members, record.oldest, record.loss, grad,
            packed_state(trainer.optimizer).numpy(), record.sent_bytes, " ".join(span[0] for span in record.spans),
            adjusted["changed"], adjusted["num_cached"],
        )  # fmt: skip
        for name, value in zip(names, row, strict=True):
            found[name].append(value)
        epoch = record.epoch + 1
    return {name: np.array(values) for name, values in found.items()} | {"score": trainer.evaluate()["test"]}
