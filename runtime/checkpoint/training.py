"""The checkpoints of one worker's training: where it goes on, and who writes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from gnnplan.planner.checkpoints import CheckpointOptions, clear_unfinished, training_of
from gnnplan.planner.plan import Plan
from gnnplan.profiles.launch import emit, is_peer_loss
from gnnplan.runtime.checkpoint.keeper import STOP_S, Keeper
from gnnplan.runtime.checkpoint.resume import Resumed, resume
from gnnplan.runtime.checkpoint.state import State
from gnnplan.runtime.checkpoint.stopping import StopRequest
from gnnplan.runtime.checkpoint.writer import Writer, run_store

_FAILED_S = 1.0  # after an error others wait to hear of it


class Trainer(Protocol):
    """What can be stopped after an epoch, and can go on."""

    @property
    def state(self) -> State:
        """All it needs to go on."""

    @property
    def fresh_until(self) -> int:
        """The epochs before it send all rows, though others would not."""

    def go_on_at(self, epoch: int, *, has_kept: bool, fresh_until: int) -> None:
        """Says which epoch comes next."""


@contextmanager
def keeping(
    trainer: Trainer,
    plan: Plan,
    folder: Path,
    rank: int,
    options: CheckpointOptions,
    stop: StopRequest,
    *,
    before_copy: Callable[[], None],
    timeout_s: float,
) -> Iterator[Keeper]:
    """A worker's checkpoints, after the trainer has gone on from one where that is asked for.

    On leaving the context what was being written is there, or is given up soon after an error. Where a worker that is
    to end finds others gone, it ends as if they had agreed.
    """
    in_step = plan.partial is None
    resumed = Resumed()
    if options.resume:
        resumed = resume(plan, folder, rank, trainer.state, in_step=in_step, say=_say)
        trainer.go_on_at(resumed.epoch, has_kept=resumed.is_same, fresh_until=resumed.fresh_until)
    writer = None
    if in_step or rank == 0:
        writer = _writer(plan, folder, rank, options, resumed, trainer.fresh_until, timeout_s)
    stop.begin_training()
    epochs, losses = plan.job.training.epochs, list(resumed.losses)
    keeper = Keeper(
        state=trainer.state,
        writer=writer,
        frequency=options.frequency,
        stop=stop,
        num_epochs=epochs,
        in_step=in_step,
        epoch=resumed.epoch,
        losses=losses,
        store=None if in_step else run_store(),
        before_copy=before_copy,
        longest_s=timeout_s,
    )
    try:
        yield keeper
    except BaseException as error:
        keeper.end(_FAILED_S)
        if stop.number and is_peer_loss(error):
            stop.leave()
        raise
    keeper.end(STOP_S)


def _writer(
    plan: Plan,
    folder: Path,
    rank: int,
    options: CheckpointOptions,
    resumed: Resumed,
    fresh_until: int,
    timeout_s: float,
) -> Writer:
    is_shared = plan.partial is None and plan.num_workers > 1
    is_first = int(os.environ["LOCAL_RANK"]) == 0
    if is_first:
        clear_unfinished(folder)
    return Writer(
        folder=folder,
        plan=plan.fingerprint(),
        training=training_of(plan),
        rank=rank,
        num_parts=plan.num_workers,
        store=run_store() if is_shared else None,
        is_first=is_first,
        num_kept=options.num_kept,
        kept=resumed.kept,
        fresh_until=fresh_until,
        timeout_s=timeout_s,
        on_written=emit,
    )


def _say(words: str) -> None:
    emit({"event": "note", "words": words})
