"""Several workers, each with its own device: every batch is trained by one of them, in step through DDP."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from gnnplan.runtime.mini_batch.executor import Renumbered, Stages


def split(stages: Stages, rank: int, size: int) -> Renumbered:
    """One worker's batches of an epoch: its number `i` is batch `rank + i size` of all."""
    return Renumbered(stages, lambda index: rank + index * size)


def num_batches_of(rank: int, size: int, num_batches: int) -> int:
    """How many of the epoch's batches a worker trains; they differ by one at most."""
    return len(range(rank, num_batches, size))


def in_step(model: torch.nn.Module) -> DistributedDataParallel:
    """The model with gradients averaged over the workers of the default group."""
    assert dist.is_initialized()
    return DistributedDataParallel(model)


@contextmanager
def joined(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Around an epoch: a worker without batches left keeps up with the others until all have none.

    Gradients are divided by the number of all workers to the end, so a step in which only some have a
    batch is as much smaller. A worker without one does not step; at the end all have the weights (`Join` sees
    to it) and the optimizer's state of those that did.
    """
    with Join([model], throw_on_early_termination=False):
        yield
    device = next(model.parameters()).device
    _take_state_of_first(optimizer, device)
    if device.type == "cuda":  # broadcast on this thread's stream, which training does not wait for
        torch.cuda.synchronize(device)


def _take_state_of_first(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """The first worker has as many batches as any."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for _, value in sorted(optimizer.state[parameter].items()):
                if isinstance(value, torch.Tensor):
                    sent = value.to(device)  # Adam counts its steps in host memory
                    dist.broadcast(sent, 0)
                    value.copy_(sent)


@contextmanager
def emptying_frames() -> Iterator[None]:
    """Within a process group: frames that an error went through hold nothing any more when the group ends.

    DDP's reducer in one of them would outlive the group, and may then wait for ever.
    """
    try:
        yield
    except BaseException as error:
        cause: BaseException | None = error
        while cause is not None:
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__cause__
        raise
