"""Which checkpoint all workers go on from, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.checkpoints import Checkpoint, checkpoints_in, part_file, training_of
from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.torchrun import group_device
from gnnplan.runtime.checkpoint.keeper import LOSSES
from gnnplan.runtime.checkpoint.parts import OtherTrainingError, read_part
from gnnplan.runtime.checkpoint.state import State, is_carried
from gnnplan.runtime.over_workers import least

_NONE = -1


@dataclass(frozen=True)
class Resumed:
    """Where a training goes on.

    Args:
        epoch: the next one to train.
        losses: of those before.
        is_same: the checkpoint is of this very plan, and of all that it keeps.
        kept: epochs of the checkpoints that are there up to that one, ascending.
        fresh_until: as the manifest has it, of the same plan.
    """

    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    is_same: bool = False
    kept: list[int] = field(default_factory=list)
    fresh_until: int = 0


def resume(plan: Plan, folder: Path, rank: int, state: State, *, in_step: bool, say: Callable[[str], None]) -> Resumed:
    """Puts the furthest checkpoint into the state, that every worker can read; every worker must call it.

    Args:
        in_step: every worker has its own part; else the first one's is everybody's.
        say: told in words what is gone on from, and what could not be.

    Raises:
        UserError: the checkpoints are of another training, or of one that keeps less.
    """
    whole, faults = checkpoints_in(folder) if rank == 0 or in_step else ([], [])
    for fault in faults[: len(faults) * (rank == 0)]:  # workers of one folder would all say the same
        say(f"{fault}; passed over")
    _check_training(whole, plan, folder)
    by_epoch = {found.epoch: found for found in whole}
    for epoch, is_same in _candidates(whole, plan):
        own = is_same and in_step
        arrays = _read(by_epoch.get(epoch), rank, state, own=own, is_same=is_same, say=say)
        if not least(int(arrays is not None)):
            continue
        state.put(_from_first(arrays or {}, state, is_same=is_same) if not own else _without_losses(arrays or {}))
        losses = [float(loss) for loss in (arrays or {}).get(LOSSES, ())]
        if rank == 0:
            how = "" if own else " with the parameters and the optimizer of another plan" if not is_same else ""
            say(f"going on with epoch {epoch} of {plan.job.training.epochs}{how}")
        fresh_until = by_epoch[epoch].manifest.fresh_until if own else 0
        return Resumed(epoch, losses, own, [each for each in sorted(by_epoch) if each <= epoch], fresh_until)
    if rank == 0:
        say("there is no checkpoint to go on from: training begins with epoch 0")
    return Resumed()


def _check_training(whole: list[Checkpoint], plan: Plan, folder: Path) -> None:
    others = [found for found in whole if found.manifest.training != training_of(plan)]
    if others:
        raise UserError(
            f"{others[0].folder}: a checkpoint of another graph, model or optimizer; run without --resume, or name "
            f"another folder than {folder}"
        )


def _candidates(whole: list[Checkpoint], plan: Plan):
    """(epoch, whether it is of this plan) as the first worker finds them, the furthest first, in all workers."""
    mine = [(found.epoch, found.manifest.plan == plan.fingerprint()) for found in whole]
    mine = [each for each in mine if each[0] < plan.job.training.epochs]
    while True:
        epoch, is_same = _told_by_first(*(mine.pop(0) if mine else (_NONE, False)))
        if epoch == _NONE:
            return
        yield epoch, bool(is_same)


def _read(
    found: Checkpoint | None, rank: int, state: State, *, own: bool, is_same: bool, say: Callable[[str], None]
) -> dict[str, np.ndarray] | None:
    """This worker's arrays; nothing in workers that take the first one's, None where they cannot be read."""
    if not own and rank != 0:
        return {}
    if found is None or (own and rank >= len(found.manifest.parts)):
        say(f"worker {rank} lacks a checkpoint that the first worker has")
        return None
    like = {name: each for name, each in state.like().items() if is_same or is_carried(name)}
    like[LOSSES] = ((None,), np.dtype(np.float64))
    number = rank if own else 0
    try:
        return read_part(found.folder / part_file(number), found.manifest.parts[number], like)
    except OtherTrainingError as error:
        raise UserError(f"{error}; run without --resume to begin with epoch 0") from error
    except UserError as error:
        say(f"{error}; passed over")
        return None


def _from_first(arrays: dict[str, np.ndarray], state: State, *, is_same: bool) -> dict[str, np.ndarray]:
    """What the first worker has read, in all workers."""
    like = {name: each for name, each in state.like().items() if is_same or is_carried(name)}
    if not dist.is_initialized():
        return _without_losses(arrays)
    found = {}
    for name, (shape, dtype) in like.items():
        lengths = [length or 0 for length in shape]
        assert math.prod(lengths) or not lengths or None not in shape, f"{name}: of any length"
        array = torch.from_numpy(arrays[name] if name in arrays else np.empty(lengths, dtype))
        found[name] = _broadcast(array).numpy()
    return found


def _without_losses(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name != LOSSES}


def _broadcast(tensor: torch.Tensor) -> torch.Tensor:
    sent = tensor.to(group_device())
    dist.broadcast(sent, 0)
    return sent.cpu()


def _told_by_first(epoch: int, is_same: bool) -> list[int]:
    if not dist.is_initialized():
        return [epoch, int(is_same)]
    return _broadcast(torch.tensor([epoch, int(is_same)])).tolist()
