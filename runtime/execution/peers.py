"""The other workers, through torch.distributed; or nobody, where one worker trains alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.transfer import Transfer, exchanged, exchanging


class Workers:
    """Collectives of the default group, each a task of the trace.

    Args:
        recorder: what times them.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._key, self._is_beside = "", False

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

    def all_reduce(self, flat: Tensor) -> Tensor:
        """The sum over all workers, in place; of one worker alone it is there already."""
        if not dist.is_initialized():
            return flat
        with self._recorder.span(self._key, "communicate"):
            dist.all_reduce(flat)
        return flat
