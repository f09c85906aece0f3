"""The other workers, through torch.distributed; or nobody, where one worker trains alone."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.region import RegionLayout
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.sampling.page_lock import page_lock
from gnnplan.runtime.shared_memory import group_of_host, make_memory, share_memory
from gnnplan.runtime.transfer import Transfer, exchanged, exchanging, summing

REGION_NAME = "gnnplan-region"
"""As which a host's region shows in /proc/PID/maps."""
_WHAT = "this host's region for halo rows"


class Workers:
    """Collectives of the default group, each a task of the trace.

    Args:
        recorder: what times them.
        timeout_s: longest wait for another worker of the host.
    """

    def __init__(self, recorder: Recorder, timeout_s: float = 300.0) -> None:
        self._recorder, self._timeout_s = recorder, timeout_s
        self._key, self._is_beside = "", False
        self._host: dist.ProcessGroup | None = None

    @contextmanager
    def on(self, op: Operator) -> Iterator[None]:
        """Says which operator the next collective is."""
        self._key, self._is_beside = op.key, op.lane == "network"
        yield

    def exchange(
        self, out: Tensor, source: Tensor, recv_counts: Sequence[int], send_counts: Sequence[int]
    ) -> Tensor | Transfer:
        """Rows of `source` to every worker, rows of every worker into `out`, both concatenated by rank.

        Beside computation it is only begun: what comes back has `wait`.
        """
        exchange = exchanging if self._is_beside else exchanged
        transfer = exchange(out, source, list(recv_counts), list(send_counts), self._recorder, self._key)
        return transfer if self._is_beside else transfer.wait()

    def all_reduce(self, flat: Tensor) -> Tensor | Transfer:
        """The sum over all workers, in place; of one worker alone it is there already.

        Beside computation it is only begun, as an exchange is.
        """
        if not dist.is_initialized():
            return flat
        if self._is_beside:
            return summing(flat, self._recorder, self._key)
        with self._recorder.span(self._key, "communicate"):
            dist.all_reduce(flat)
        return flat

    def host_memory(self, layout: RegionLayout) -> mmap.mmap:
        """Memory that the workers of this one's host share; every worker of the run must call it.

        Raises `UserError` where the host has less left.
        """
        rank, ranks = dist.get_rank(), layout.ranks
        self._host = group_of_host(layout.host_of, rank, self._timeout_s)
        is_first = rank == ranks[0]
        descriptor = make_memory(layout.num_bytes, _WHAT, REGION_NAME) if is_first else None
        memory = share_memory(descriptor, layout.num_bytes, ranks, self._host)
        if self._recorder.device.type == "cuda":
            page_lock(memory)  # rows are written into it directly; who reads gathers them first
        return memory

    def host_barrier(self) -> None:
        """Waits for the other workers of the host, if it has any."""
        with self._recorder.span(self._key, "communicate"):
            if self._host is not None:
                dist.barrier(self._host)
