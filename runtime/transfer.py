"""Rows and sums on their way between workers, while this one goes on computing or waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.profiles.exchange import all_to_all, start_all_to_all
from gnnplan.runtime.recorder import Recorder

_watcher: ThreadPoolExecutor | None = None


@dataclass
class Transfer:
    """An exchange or a sum that was begun; what is sent must not change before `wait` returns.

    Args:
        out: where rows arrive, or the sum.
    """

    out: Tensor | None
    _source: Tensor | None = None  # lives until it is sent
    _end: Callable[[], object] | None = None

    def view(self, *shape: int) -> Transfer:
        """The same elements in another shape, as of a tensor."""
        assert self.out is not None, "waited for already"
        self.out = self.out.view(*shape)
        return self

    def wait(self) -> Tensor:
        """What was received, once all is here and all else is sent; nothing of it is held on to."""
        assert self.out is not None, "waited for already"
        if self._end:
            self._end()
        out, self.out = self.out, None
        self._source = self._end = None
        return out


def exchanged(
    out: Tensor, source: Tensor, recv_counts: list[int], send_counts: list[int], recorder: Recorder, key: str
) -> Transfer:
    """An exchange from its begin to its end, timed as task `key`."""
    with recorder.span(key, "communicate"):
        all_to_all(out, source, recv_counts, send_counts)
    return Transfer(out)


def exchanging(
    out: Tensor, source: Tensor, recv_counts: list[int], send_counts: list[int], recorder: Recorder, key: str
) -> Transfer:
    """Begins an exchange, timed as task `key` until it has ended, whether or not anybody waits for it by then."""
    return _begun(out, source, lambda: start_all_to_all(out, source, recv_counts, send_counts), recorder, key)


def summing(flat: Tensor, recorder: Recorder, key: str) -> Transfer:
    """Begins a sum over all workers, in place, timed as task `key` as an exchange is."""
    return _begun(flat, flat, lambda: _only(dist.all_reduce(flat, async_op=True)), recorder, key)


def _only(work: dist.Work | None) -> list[dist.Work]:
    assert work is not None
    return [work]


def _begun(out: Tensor, source: Tensor, start: Callable[[], list[dist.Work]], recorder: Recorder, key: str) -> Transfer:
    if source.device.type == "cuda":
        return _begun_on_stream(out, source, start, recorder, key)
    start_s = time.monotonic()
    works = start()
    if not recorder.active:
        return Transfer(out, source, lambda: _wait_for(works))
    ended = _watch().submit(_ended_s, works)

    def end() -> None:
        recorder.add(key, "communicate", start_s, ended.result())
        works.clear()  # they hold the tensors, and the other thread might hold them a moment longer

    return Transfer(out, source, end)


def _begun_on_stream(
    out: Tensor, source: Tensor, start: Callable[[], list[dist.Work]], recorder: Recorder, key: str
) -> Transfer:
    """On a stream of its own, which waits for what was computed so far and not for what follows."""
    current, side = torch.cuda.current_stream(source.device), torch.cuda.Stream(source.device)
    side.wait_stream(current)
    with torch.cuda.stream(side), recorder.span(key, "communicate"):
        _wait_for(start())  # makes this stream wait, not the host
    return Transfer(out, source, lambda: current.wait_stream(side))


def _wait_for(works: Sequence[dist.Work]) -> None:
    for work in works:
        work.wait()


def _ended_s(works: Sequence[dist.Work]) -> float:
    _wait_for(works)
    return time.monotonic()


def _watch() -> ThreadPoolExecutor:
    """A thread that notes when exchanges end while the worker's own computes: only measured epochs need it.

    Of two on their way it waits for the one begun first, so the other is never said to have ended before it.
    """
    global _watcher
    if _watcher is None:
        _watcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exchange-watch")
    return _watcher
