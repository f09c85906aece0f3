"""Whether another split was worth it, by the epochs before and after.

All workers choose for themselves from what they see under the splits of all, so several that move at once may be worse
off together, and then move again. Epochs tell: a split that makes them longer is taken back, and after one that makes
them no shorter none is tried for a while, twice as long each time.
"""

from __future__ import annotations

from collections import deque

import numpy as np

_NUM_BEFORE = 3  # whose median is compared with: one may be disturbed
_NUM_AFTER = 2  # the shorter counts
_WORTH = 0.02  # of an epoch: less is neither longer nor shorter
_LEAST_REST, _MOST_REST = 4, 64  # epochs
_OTHER_WEATHER = 1.25  # times as long, or as short, as when rest began: it is over


class Trials:
    """The same on every worker, for all are told the same."""

    def __init__(self) -> None:
        self._before_s: deque[float] = deque(maxlen=_NUM_BEFORE)
        self._after_s: list[float] = []
        self._is_on = self._is_last_before = self._is_taken_back = False
        self._rest = self._next_rest = 0
        self._usual_s = 0.0  # when rest began

    @property
    def is_open(self) -> bool:
        """Whether another split may be wanted."""
        return not self._is_on and self._rest == 0

    def begin(self) -> None:
        """All have set up another split for the next epoch."""
        self._is_on = self._is_last_before = True
        self._after_s = []

    def hear(self, epoch_s: float) -> bool:
        """Takes the length of the epoch before the one that has ended; whether the split before comes back now."""
        if self._is_on and not self._is_last_before:
            self._after_s.append(epoch_s)
            return len(self._after_s) == _NUM_AFTER and self._is_worse()
        if not self._is_taken_back:
            self._before_s.append(epoch_s)
            self._go_on_resting()
        self._is_last_before = self._is_taken_back = False
        return False

    def _is_worse(self) -> bool:
        """Ends the trial."""
        before_s, after_s = float(np.median(self._before_s)), min(self._after_s)
        is_worse, is_better = after_s > before_s * (1 + _WORTH), after_s < before_s * (1 - _WORTH)
        self._is_on, self._is_taken_back = False, is_worse
        self._next_rest = 0 if is_better else min(max(2 * self._next_rest, _LEAST_REST), _MOST_REST)
        self._rest, self._usual_s = self._next_rest, before_s if is_worse else after_s
        if not is_worse:
            self._before_s.clear()
            self._before_s.extend(self._after_s)
        return is_worse

    def _go_on_resting(self) -> None:
        if self._rest:
            now_s = float(np.median(self._before_s))
            is_usual = self._usual_s / _OTHER_WEATHER <= now_s <= self._usual_s * _OTHER_WEATHER
            self._rest = self._rest - 1 if is_usual else 0
