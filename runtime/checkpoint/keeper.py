"""When a checkpoint is due, on which all workers agree: between epochs, and rarely enough to cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch.distributed as dist

from gnnplan.planner.checkpoints import Frequency
from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.memory import available_bytes
from gnnplan.runtime.checkpoint.state import State, copied, viewed
from gnnplan.runtime.checkpoint.stopping import StopRequest
from gnnplan.runtime.checkpoint.writer import Writer
from gnnplan.runtime.over_workers import largest

STOP_S = 20.0
"""In which a checkpoint is written once all workers have agreed to stop. torchrun's agents kill them after 30."""
LOSSES = "losses"

_WRITTEN = "written"
_AGREE_S = 1.0  # between two agreements: one takes ten milliseconds, where hosts have quotas
_MOST_EPOCHS = 64  # between two agreements: epochs may become longer than those that were measured
_ROOM = 1.25  # of free memory to what a copy takes


@dataclass
class Keeper:
    """One worker's checkpoints.

    Args:
        num_epochs: of the training. After its last epoch there is the model, and no checkpoint.
        writer: None in workers that have no part.
        stop: whether this worker is to end.
        in_step: workers are; else the first one alone writes, and tells the others through `store` that they may end.
        before_copy: called before the first copy, which takes memory that training does not.
        epoch: the next one to train.
        losses: of the epochs before.
        longest_s: that training may wait for a checkpoint that memory has no room to copy.
        held_s: seconds for which training waited for copies.
    """

    state: State
    writer: Writer | None
    frequency: Frequency
    stop: StopRequest
    num_epochs: int
    in_step: bool
    epoch: int
    losses: list[float]
    store: dist.Store | None = None
    before_copy: Callable[[], None] = lambda: None
    longest_s: float = 300.0
    held_s: float = 0.0
    _begun_s: float = field(default_factory=time.monotonic)
    _begun_at: int = field(init=False)
    _agree_at: int = field(init=False)

    def __post_init__(self) -> None:
        self._begun_at = self._agree_at = self.epoch
        self.losses_before = tuple(self.losses)
        """Of epochs that an earlier run has trained."""

    def after(self, epoch: int, epoch_s: float, loss: float) -> None:
        """Writes a checkpoint where one is due; ends this process where all are to end.

        Args:
            epoch: that has ended, after `epoch_s` seconds, an evaluation of it included.
        """
        self.losses += [loss] * (epoch + 1 - self.epoch)  # of steps that went on without this worker too
        self.epoch = epoch + 1
        if self.epoch >= self.num_epochs or not (self.epoch >= self._agree_at or self._is_due_by_epochs()):
            return
        is_busy = self.writer is not None and self.writer.is_busy
        own = (float(self._is_due()), float(self.stop.number), float(is_busy), epoch_s)
        due, number, busy, longest_s = largest(own) if self.in_step else own
        self._agree_at = self.epoch + min(max(1, int(_AGREE_S / max(longest_s, 1e-6))), _MOST_EPOCHS)
        if number:
            self.stop.number = int(number)
            self._write_and_leave()
        elif due and not busy:
            self._begin()

    def end(self, timeout_s: float) -> None:
        """Waits for what is being written."""
        if self.writer is not None:
            self.writer.end(timeout_s)

    def _is_due_by_epochs(self) -> bool:
        return 0 < self.frequency.epochs <= self.epoch - self._begun_at

    def _is_due(self) -> bool:
        is_first = not dist.is_initialized() or dist.get_rank() == 0  # by whose clock it is
        by_clock = is_first and 0 < self.frequency.seconds <= time.monotonic() - self._begun_s
        return by_clock or self._is_due_by_epochs()

    def _begin(self) -> None:
        self._begun_s, self._begun_at = time.monotonic(), self.epoch
        if self.writer is None:
            return
        self.before_copy()
        held = self.state.held()
        num_bytes = sum(value.nbytes for value in held.values())
        has_room = available_bytes() > _ROOM * num_bytes
        self.writer.begin(self.epoch, self._with_losses(copied(held) if has_room else viewed(held)))
        if not has_room:
            self.writer.finish(self.longest_s)
            if self.writer.is_busy:  # going on would change what is being written
                raise RunFailedError(f"a checkpoint was not written within {self.longest_s:g} s: the disk is too slow")
        self.held_s += time.monotonic() - self._begun_s

    def _write_and_leave(self) -> None:
        if self.writer is not None:
            self._write_last(self.writer)
        elif self.store is not None and not self.store.check([_WRITTEN]):
            self._agree_at = self.epoch + 1  # the first worker still needs this one, to end its epoch
            return
        self.stop.leave()

    def _write_last(self, writer: Writer) -> None:
        until_s = time.monotonic() + STOP_S
        writer.finish(STOP_S)
        if not writer.is_busy:  # else a disk takes longer than there is time, and the one before it holds
            writer.begin(self.epoch, self._with_losses(viewed(self.state.held())))
        writer.end(until_s - time.monotonic())
        if self.store is not None:
            self.store.set(_WRITTEN, "")

    def _with_losses(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**arrays, LOSSES: np.array(self.losses)}
