"""What the parts of an epoch usually take here, measured in the warm-up; and so until when peers are waited for."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from planner.partial import rule

EPOCH = "epoch"
_IN_A_ROW = 3  # one may be short by chance: where a part begins late, all rows are there


@dataclass
class Pace:
    """One worker's clock.

    A part begins where the one before ended, so that a part's time is its own work and its waiting. T0 of the paper
    is the least of the warm-up epochs but the first: in one of them a peer may have been late. A later warm-up may be
    in the midst of bad weather: after it T0 falls to the most of any three epochs in a row, and never rises.

    Args:
        warm_until: epoch before which all wait for all.
    """

    alpha: float
    warm_until: int = rule.WARM_UP_EPOCHS
    _warm_from: int = 0
    _epoch: int = -1
    _is_usual: bool = True
    _epoch_begin_s: float = 0.0
    _part_begin_s: float = 0.0
    _measured_s: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_IN_A_ROW)))
    _usual_s: dict[str, float] = field(default_factory=dict)

    def begin(self, epoch: int) -> None:
        """An epoch begins here."""
        self._epoch, self._is_usual = epoch, True
        self._epoch_begin_s = self._part_begin_s = time.monotonic()
        if epoch >= self.warm_until:
            self._learn()

    def warm_up_from(self, epoch: int) -> None:
        """What is usual so far no longer holds from this epoch on."""
        self._warm_from, self.warm_until = epoch, rule.warm_again_until(epoch)
        self._usual_s.clear()
        self._measured_s.clear()

    def disturbed(self) -> None:
        """The rest of this epoch does not count: this worker slept in it, or others were not there."""
        self._is_usual = False

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
        return rule.deadline_s(self._part_begin_s, self._usual_s.get(name, math.inf), self.alpha)

    def step_deadline_s(self, since_s: float | None = None) -> float:
        """Until when the step waits for workers: counted from the epoch's begin, or from another moment."""
        begin_s = self._epoch_begin_s if since_s is None else since_s
        return rule.deadline_s(begin_s, self._usual_s.get(EPOCH, math.inf), self.alpha)

    def _measure(self, name: str, seconds: float) -> None:
        # The first warm-up is fair, and its T0 stays.
        is_asked = self._warm_from > 0 or self._epoch < self.warm_until
        if is_asked and self._is_usual and self._epoch > self._warm_from:
            self._measured_s[name].append(seconds)

    def _learn(self) -> None:
        for name, recent_s in self._measured_s.items():
            if name not in self._usual_s:
                self._usual_s[name] = min(recent_s)
            elif len(recent_s) == _IN_A_ROW:
                self._usual_s[name] = min(self._usual_s[name], max(recent_s))
