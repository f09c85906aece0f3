"""Collectives among threads of one process, as NCCL has them: between GPUs' memory, on a stream of their own.

They refuse what NCCL would take and answer with nonsense: counts that two workers do not agree on, and tensors of other
sizes, types or devices.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks._fake_cuda_calls import current_device
from benchmarks._fake_device import FakeTensor, numbers_of
from benchmarks._fake_memory import storages
from benchmarks._fake_streams import Clock

TIMEOUT_S = 60.0


class Members:
    """Threads that come to the same collectives in the same order."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = list(ranks)
        self.barrier = threading.Barrier(len(self.ranks))
        self._table: dict[int, Any] = {}

    def all(self, rank: int, mine: Any) -> list[Any]:
        """What every member brought; it is theirs until `done`."""
        self._table[rank] = mine
        self.barrier.wait(TIMEOUT_S)
        return [self._table[each] for each in self.ranks]

    def done(self, rank: int) -> None:
        """Lets go of what this one brought, when nobody reads it any more."""
        self.barrier.wait(TIMEOUT_S)
        del self._table[rank]


class Work:
    """A collective that was begun on the stream of all collectives.

    Args:
        clock: of that stream, with it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def wait(self) -> None:
        """The current stream waits for it; the host does not."""
        order = current_device().order
        order.wait(order.current, self._clock)


class FakeGroup:
    """The default group, and those made of it.

    Args:
        size: number of workers.
        is_cuda: whether its tensors lie on devices.
    """

    def __init__(self, size: int, *, is_cuda: bool) -> None:
        self._is_cuda, self._rank = is_cuda, threading.local()
        self.world, self._groups, self._lock = Members(range(size)), {}, threading.Lock()

    def join(self, rank: int) -> None:
        """This thread is a worker."""
        self._rank.number = rank

    def get_rank(self) -> int:
        """This thread's."""
        return self._rank.number

    def get_world_size(self) -> int:
        """Workers of the group."""
        return len(self.world.ranks)

    def get_backend(self) -> str:
        """As which it behaves."""
        return "nccl"

    def is_initialized(self) -> bool:
        """One worker alone makes no group."""
        return self.get_world_size() > 1

    def new_group(self, ranks: Sequence[int], **_: Any) -> Members:
        """A part of it, over the host's memory."""
        with self._lock:
            return self._groups.setdefault(tuple(ranks), Members(ranks))

    def abort(self) -> None:
        """A worker has failed: the others need not wait for it."""
        for members in (self.world, *self._groups.values()):
            members.barrier.abort()

    def barrier(self, group: Members | None = None) -> None:
        """All of a group meet."""
        (group or self.world).barrier.wait(TIMEOUT_S)

    def broadcast(self, tensor: Tensor, source: int, group: Members) -> None:
        """Small tensors of the host."""
        assert not isinstance(tensor, FakeTensor)
        everyone = group.all(self.get_rank(), tensor)
        tensor.copy_(everyone[group.ranks.index(source)])
        group.done(self.get_rank())

    def all_to_all_single(
        self, out: Tensor, source: Tensor, recv_counts: list[int], send_counts: list[int], async_op: bool = False
    ) -> Work | None:
        """Rows to every worker, and from every worker."""
        rank = self.get_rank()
        self._check(out, source)
        assert (len(out), len(source)) == (sum(recv_counts), sum(send_counts)), "counts are not those of the rows"
        assert (out.shape[1:], out.dtype) == (source.shape[1:], source.dtype)
        work = self._begun("all_to_all", [source], [out])
        everyone = self.world.all(rank, numbers_of(source).split(send_counts))
        rows = [parts[rank] for parts in everyone]
        assert [len(each) for each in rows] == recv_counts, "a worker sends other counts than this one expects"
        torch.cat(rows, out=numbers_of(out))
        del everyone, rows
        self.world.done(rank)
        return self._ended(work, async_op=async_op)

    def all_reduce(self, tensor: Tensor, async_op: bool = False) -> Work | None:
        """The sum over all workers, in place."""
        self._check(tensor)
        work = self._begun("all_reduce", [tensor], [tensor])
        everyone = self.world.all(self.get_rank(), numbers_of(tensor).clone())
        assert len({part.shape for part in everyone}) == 1, "workers sum tensors of different shapes"
        numbers_of(tensor).copy_(sum(everyone[1:], everyone[0].clone()))
        del everyone
        self.world.done(self.get_rank())
        return self._ended(work, async_op=async_op)

    def _check(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            assert tensor.is_contiguous(), "NCCL takes contiguous tensors alone"
            if self._is_cuda:
                where = tensor.device if isinstance(tensor, FakeTensor) else None
                assert where == current_device().device, "NCCL takes tensors of the worker's own GPU alone"

    def _begun(self, name: str, reads: list[Tensor], writes: list[Tensor]) -> Work | None:
        if not self._is_cuda:
            return None
        order = current_device().order
        before, order.current = order.current, order.of_collectives
        order.wait(order.current, order.clocks[before])
        order.operate(name, *([_key(tensor) for tensor in tensors] for tensors in (reads, writes)))
        order.current = before
        return Work(dict(order.clocks[order.of_collectives]))

    def _ended(self, work: Work | None, *, async_op: bool) -> Any:
        if work is not None and not async_op:
            work.wait()
        return (work or _Ended()) if async_op else None


class _Ended:
    def wait(self) -> None:
        """It has ended already."""


def _key(tensor: Tensor) -> int:
    (storage,) = storages(numbers_of(tensor))
    return storage._cdata


_CALLS = (
    "get_rank",
    "get_world_size",
    "get_backend",
    "is_initialized",
    "new_group",
    "barrier",
    "broadcast",
    "all_to_all_single",
    "all_reduce",
)


@contextmanager
def grouped(size: int, *, is_cuda: bool) -> Iterator[FakeGroup]:
    """While it lasts, `torch.distributed` has a group of this process's threads."""
    group = FakeGroup(size, is_cuda=is_cuda)
    with mock.patch.multiple(dist, **{name: getattr(group, name) for name in _CALLS}):
        yield group
