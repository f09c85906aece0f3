"""Threads that run one stage of a mini-batch at a time and tell when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, Queue, SimpleQueue
from threading import Thread

from gnnplan.profiles.errors import RunFailedError

_JOIN_S = 10.0
_LOOK_S = 0.5


class StageFailedError(RunFailedError):
    """A stage raised, or did not end in time; the message names it and its batch."""


@dataclass(frozen=True)
class Ended:
    """A stage that has ended.

    What handing over takes is part of it: threads wake each other, and queue for the interpreter.

    Args:
        result: what its call returned.
        start_s, end_s: on the monotonic clock, from the end of the stage that let it begin to when its own is known.
    """

    stage: str
    batch: int
    result: object
    start_s: float
    end_s: float


@dataclass(frozen=True)
class _Order:
    stage: str
    batch: int
    call: Callable[[], object]
    start_s: float


class Lanes:
    """One thread for each name; on leaving the context all of them have ended, or the context says which did not.

    Args:
        names: of the lanes.
        timeout_s: after which a stage that has not ended counts as failed.
    """

    def __init__(self, names: tuple[str, ...], timeout_s: float) -> None:
        self._ended: SimpleQueue[tuple[_Order, object, BaseException | None]] = SimpleQueue()
        self._orders: Mapping[str, Queue[_Order | None]] = {name: Queue() for name in names}
        self._threads = [Thread(target=self._work, args=(name,), name=name, daemon=True) for name in names]
        self._timeout_s = timeout_s
        self._under_way: set[tuple[str, int]] = set()
        self._known_s = 0.0  # when the last end became known

    def __enter__(self) -> Lanes:
        self._known_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        for orders in self._orders.values():
            orders.put(None)
        deadline_s = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        stuck = [thread.name for thread in self._threads if thread.is_alive()]
        if stuck and error is not None:
            error.add_note(f"still at work: {', '.join(stuck)}")
        elif stuck:
            raise StageFailedError(f"still at work when all should have ended: {', '.join(stuck)}")

    def begin(self, lane: str, stage: str, batch: int, call: Callable[[], object]) -> None:
        """Has the lane run a stage of batch number `batch`, after those it was given before."""
        self._under_way.add((stage, batch))
        self._orders[lane].put(_Order(stage, batch, call, self._known_s))

    def at_once(self, stage: str, batch: int, call: Callable[[], object]) -> None:
        """Runs a stage here and now, for one that takes less than waking a thread; its end is waited for as others'."""
        self._under_way.add((stage, batch))
        self._run(_Order(stage, batch, call, self._known_s))

    def wait(self) -> Ended:
        """The next stage to end.

        Raises:
            StageFailedError: it raised, or nothing ended within the timeout.
        """
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                order, result, error = self._ended.get(timeout=min(_LOOK_S, self._timeout_s))
                break
            except Empty:
                if time.monotonic() > deadline_s:
                    waiting = ", ".join(f"{stage} of batch {batch}" for stage, batch in sorted(self._under_way))
                    raise StageFailedError(f"nothing ended in {self._timeout_s:.0f} s; under way: {waiting}") from None
        if error is not None:
            raise StageFailedError(
                f"{order.stage} of batch {order.batch} failed: {type(error).__name__}: {error}"
            ) from error
        self._under_way.remove((order.stage, order.batch))
        self._known_s = time.monotonic()
        return Ended(order.stage, order.batch, result, order.start_s, self._known_s)

    def _work(self, lane: str) -> None:
        while self._run_one(lane):
            pass

    def _run_one(self, lane: str) -> bool:
        """Whether there may be more to run. A function of its own, so that a waiting thread holds on to no batch."""
        order = self._orders[lane].get()
        return order is not None and self._run(order)

    def _run(self, order: _Order) -> bool:
        """Whether it went well."""
        try:
            result = order.call()
        except BaseException as error:  # whatever it is, the one who waits must learn of it
            self._ended.put((order, None, error))
            return False
        self._ended.put((order, result, None))
        return True
