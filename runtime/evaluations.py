"""Accuracies on the way: which epochs they come after, and what they must not disturb."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from gnnplan.planner.plan import Plan
from gnnplan.runtime.measured import UNTIMED_EPOCHS
from gnnplan.runtime.peak import peak_memory_bytes
from gnnplan.runtime.program_trainer import ProgramTrainer

if TYPE_CHECKING:
    from gnnplan.runtime.mini_batch.trainer import BatchTrainer

_MOST_KINDS = 2
"""Of epochs, that come twice before the first evaluation: a curve of a long cycle has to begin somewhere."""


@dataclass
class Evaluations:
    """Evaluates after some epochs, and keeps what the training took apart from what that takes.

    Args:
        epochs: after each of which all workers evaluate.
        rows_in: as `peak_memory_bytes` takes it.
        spent_s: seconds of all evaluations so far.
        accuracy: the last one.
    """

    trainer: ProgramTrainer | BatchTrainer
    device: torch.device
    epochs: frozenset[int]
    rows_in: Path | None = None
    spent_s: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    _peak_bytes: int = 0

    @property
    def metric(self) -> str:
        """What the accuracies are."""
        return self.trainer.metric

    def after(self, epoch: int, *, is_due: bool = False) -> None:
        """Evaluates where it is time to, or somebody else needs it now."""
        if epoch not in self.epochs and not is_due:
            return
        begun_s = time.monotonic()
        self.note_peak()
        self.accuracy = self.trainer.evaluate()
        self.spent_s += time.monotonic() - begun_s

    def note_peak(self) -> None:
        """What training has taken so far is what it takes: other things are about to be held beside it."""
        self._peak_bytes = self.peak_bytes()

    def peak_bytes(self) -> int:
        """Of the training until the first evaluation, which holds other rows, or the first copy for a checkpoint.

        By then two kinds of epochs have come, of which the first has all rows sent, unless checkpoints were asked for
        as soon as that.
        """
        return self._peak_bytes or peak_memory_bytes(self.device, self.rows_in)


def evaluated_epochs(plan: Plan, count: int) -> frozenset[int]:
    """Up to `count` epochs, evenly spread, each followed by another.

    None where workers may be out of step, and none of mini-batches, whose evaluation may take more memory than they do.
    """
    if plan.partial is not None or plan.mini_batch is not None or not count:
        return frozenset()
    first = UNTIMED_EPOCHS + 2 * min(plan.refresh_interval, _MOST_KINDS) - 1
    last = plan.job.training.epochs - 2
    return frozenset(int(epoch) for epoch in np.linspace(first, last, count)) if first <= last else frozenset()
