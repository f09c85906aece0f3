"""A worker that is told to end: at once before it trains, and after a checkpoint while it does."""

from __future__ import annotations

import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Takes SIGTERM and SIGINT from the moment it is made; torchrun's agents pass them on to their workers.

    Args:
        is_deaf: it takes none.
    """

    def __init__(self, *, is_deaf: bool = False) -> None:
        self.number = 0
        """Of the signal that came (0: none)."""
        self._is_training = False
        if not is_deaf and threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._take)

    def begin_training(self) -> None:
        """From now on there is something to lose."""
        self._is_training = True

    def leave(self) -> None:
        """Ends this process as the shell says of one that a signal ended."""
        raise SystemExit(128 + (self.number or signal.SIGTERM))

    def _take(self, number: int, _: FrameType | None) -> None:
        self.number = number
        if not self._is_training:
            self.leave()
