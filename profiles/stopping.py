"""SIGTERM and SIGINT, as Slurm, Kubernetes and people send them: what is under way is told, and has a while to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from gnnplan.profiles.errors import StoppedError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
Handler = Callable[[int, FrameType | None], None]


class Stop:
    """Whether this process was told to end: `number` of the signal, 0 where it was not."""

    def __init__(self) -> None:
        self.number = 0

    def take(self, number: int, _: FrameType | None = None) -> None:
        """A signal came; a second SIGINT is an impatient user's, who waits for nothing."""
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def noting_signals() -> Iterator[Stop]:
    """Within, SIGTERM and SIGINT are noted and end nothing by themselves. Threads but the main one get none."""
    stop = Stop()
    with _handling(dict.fromkeys(_SIGNALS, stop.take)):
        yield stop


@contextmanager
def raising_on_sigterm() -> Iterator[None]:
    """Within, SIGTERM raises `StoppedError`, so that whatever is under way cleans up as after SIGINT."""

    def take(number: int, _: FrameType | None) -> None:
        raise StoppedError("ended by SIGTERM", number)

    with _handling({signal.SIGTERM: take}):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, handlers[number]) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
