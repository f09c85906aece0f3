"""What the parts of an epoch usually take here, measured in the warm-up; and so until when peers are waited for."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from gnnplan.planner.partial import rule

EPOCH = "epoch"


@dataclass
class Pace:
    """One worker's clock.

    A part begins where the one before ended, so that a part's time is its own work and its waiting. T0 of the paper
    is the least of the warm-up epochs but the first: in one of them a peer may have been late.

    Args:
        first_epoch: of this run, which may go on from another.
    """

    alpha: float
    first_epoch: int = 0
    _epoch: int = -1
    _epoch_begin_s: float = 0.0
    _part_begin_s: float = 0.0
    _measured_s: dict[str, float] = field(default_factory=dict)

    def begin(self, epoch: int) -> None:
        """An epoch begins here."""
        self._epoch = epoch - self.first_epoch
        self._epoch_begin_s = self._part_begin_s = time.monotonic()

    def end_part(self, name: str) -> None:
        """A part has ended, and the next one begins."""
        now_s = time.monotonic()
        self._measure(name, now_s - self._part_begin_s)
        self._part_begin_s = now_s

    def end_epoch(self) -> None:
        """The epoch has ended with its step."""
        self._measure(EPOCH, time.monotonic() - self._epoch_begin_s)

    def deadline_s(self, name: str) -> float:
        """Until when (monotonic clock) this part waits for what comes late; infinity until it is measured."""
        return rule.deadline_s(self._part_begin_s, self._usual_s(name), self.alpha)

    def step_deadline_s(self, since_s: float | None = None) -> float:
        """Until when the step waits for workers: counted from the epoch's begin, or from another moment."""
        begin_s = self._epoch_begin_s if since_s is None else since_s
        return rule.deadline_s(begin_s, self._usual_s(EPOCH), self.alpha)

    def _usual_s(self, name: str) -> float:
        is_known = self._epoch >= rule.WARM_UP_EPOCHS
        return self._measured_s.get(name, math.inf) if is_known else math.inf

    def _measure(self, name: str, seconds: float) -> None:
        if 0 < self._epoch < rule.WARM_UP_EPOCHS:
            self._measured_s[name] = min(seconds, self._measured_s.get(name, math.inf))
