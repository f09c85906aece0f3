"""Items made by threads and handed out in order, a bounded number of them ahead."""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gnnplan.profiles.errors import RunFailedError

T = TypeVar("T")
_POLL_S = 0.1  # every wait ends after this and looks whether the other side is still there
_JOIN_S = 30.0


@dataclass
class _Shared(Generic[T]):
    """What consumer and threads share. The threads know nothing else, so a dropped consumer is collected.

    Args:
        count: how many items there are.
        max_in_flight: items claimed by a thread and not yet taken by the consumer.
        made: items or errors that wait for the consumer, by index.
    """

    count: int
    max_in_flight: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    stopped: threading.Event = field(default_factory=threading.Event)
    made: dict[int, tuple[T | None, BaseException | None]] = field(default_factory=dict)
    num_claimed: int = 0
    num_taken: int = 0

    def claim(self) -> int | None:
        """The next item to make, waiting until there is room; None at the end."""
        with self.changed:
            while not self.stopped.is_set() and self.num_claimed < self.count:
                if self.num_claimed - self.num_taken < self.max_in_flight:
                    self.num_claimed += 1
                    return self.num_claimed - 1
                self.changed.wait(_POLL_S)
        return None

    def deliver(self, index: int, item: T | None, error: BaseException | None) -> None:
        """Lays an item, or the error it ended in, ready for the consumer."""
        with self.changed:
            self.made[index] = item, error
            self.changed.notify_all()

    def take(self, index: int, is_alive: Callable[[], bool], timeout_s: float) -> tuple[T | None, BaseException | None]:
        """Waits for an item; `RunFailedError` where no thread is left to make it, or none did in time."""
        deadline_s = time.monotonic() + timeout_s
        with self.changed:
            while index not in self.made:
                if not is_alive():
                    raise RunFailedError(f"the sampling threads ended without making batch {index}")
                if time.monotonic() > deadline_s:
                    raise RunFailedError(f"batch {index} was not sampled within {timeout_s:g} s")
                self.changed.wait(_POLL_S)
            self.num_taken += 1
            self.changed.notify_all()
            return self.made.pop(index)


class OrderedPipeline(Iterator[T]):
    """Iterates over make(0), make(1), ... make(count - 1), made by threads.

    The threads end when the last item is made, on `close`, when an item fails, and when the
    iterator is dropped (within a tenth of a second).

    Args:
        make: called from several threads at once; it must not refer to the iterator.
        num_threads: at least 1.
        max_in_flight: items that are being made or wait, at least 1.
        timeout_s: longest wait for an item; a thread that makes one for so long is left behind.
        begin: called in each thread with its number, before it makes anything.
    """

    def __init__(
        self,
        make: Callable[[int], T],
        count: int,
        *,
        num_threads: int,
        max_in_flight: int,
        timeout_s: float = math.inf,
        begin: Callable[[int], object] | None = None,
    ) -> None:
        self._shared: _Shared[T] = _Shared(count, max_in_flight)
        self._index, self._timeout_s = 0, timeout_s
        # A finalizer may run anywhere, also under the lock: it only sets the flag.
        weakref.finalize(self, self._shared.stopped.set)
        self._threads = [
            threading.Thread(
                target=_work, args=(self._shared, _begun(make, begin, i)), name=f"gnnplan-sampling-{i}", daemon=True
            )
            for i in range(min(num_threads, count))
        ]
        for thread in self._threads:
            _running[thread] = self._shared
            thread.start()

    def __next__(self) -> T:
        if self._index == self._shared.count or self._shared.stopped.is_set():
            self.close()
            raise StopIteration
        index = self._index
        try:
            item, error = self._shared.take(index, self._has_threads, self._timeout_s)
        except BaseException:
            self.close()
            raise
        self._index += 1
        if error is not None:
            self.close()
            raise RunFailedError(f"sampling batch {index} failed: {type(error).__name__}: {error}") from error
        return item  # type: ignore[return-value]

    def close(self) -> None:
        """Ends the threads and drops what they made; nothing where it is closed already."""
        self._shared.stopped.set()
        with self._shared.changed:
            self._shared.changed.notify_all()
        deadline_s = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        self._shared.made.clear()

    def _has_threads(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)


_running: dict[threading.Thread, _Shared] = {}


@atexit.register
def _end_all() -> None:
    """A thread that comes back from a kernel into a dying interpreter would abort the process."""
    for shared in list(_running.values()):
        shared.stopped.set()
    for thread in list(_running):
        thread.join(_JOIN_S)


def _begun(make: Callable[[int], T], begin: Callable[[int], object] | None, number: int) -> Callable[[int], T]:
    """Makes items of one thread, and calls `begin` before the first; what that raises ends the first item."""
    if begin is None:
        return make
    left = [begin]

    def begun(index: int) -> T:
        while left:
            left.pop()(number)
        return make(index)

    return begun


def _work(shared: _Shared[T], make: Callable[[int], T]) -> None:
    try:
        while (index := shared.claim()) is not None and _make_one(shared, make, index):
            pass
    finally:
        _running.pop(threading.current_thread(), None)


def _make_one(shared: _Shared[T], make: Callable[[int], T], index: int) -> bool:
    """Whether it went well. A function of its own, so that a waiting thread holds on to no item."""
    try:
        shared.deliver(index, make(index), None)
    except BaseException as error:  # the consumer raises it
        shared.deliver(index, None, error)
        return False
    return True
