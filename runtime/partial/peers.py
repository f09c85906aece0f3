"""The other workers, which this one goes on without where they lag behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Slot
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.transfer import Transfer

Join = Callable[[Tensor], Tensor]
"""A worker's own gradient [P + 1] to that of the first step that it takes part in, both in host memory."""


class PartialWorkers(Workers):
    """Late exchanges go over the mailbox, a group's sum by who is ready; all others are those of `Workers`."""

    def __init__(self, recorder: Recorder, lateness: Lateness, join: Join) -> None:
        super().__init__(recorder)
        self._late, self._join = lateness, join
        self._is_late = self._is_of_group = False

    @contextmanager
    def on(self, op: Operator) -> Iterator[None]:
        self._is_late, self._is_of_group = (bool(op.attributes.get(name)) for name in ("late", "group"))
        with super().on(op):
            yield

    def exchange(
        self, out: Tensor, source: Tensor, recv_counts: Sequence[int], send_counts: Sequence[int]
    ) -> Tensor | Transfer:
        if not self._is_late:
            return super().exchange(out, source, recv_counts, send_counts)
        key, begin_s = self._key, time.monotonic()
        if self._is_beside:
            self._send(source)
            return Transfer(out, None, lambda: self._receive_beside(key, out, begin_s))
        with self._recorder.span(key, "communicate"):
            self._send(source)
            return self._late.receive(key, out)

    def _send(self, source: Tensor) -> None:
        """Sends a copy, for the worker may go on and write over its rows before they are sent."""
        rows = torch.empty(source.shape)  # not of the pool: it may outlive the epoch, whose blocks are counted
        self._late.send(self._key, rows.copy_(source))

    def _receive_beside(self, key: str, out: Tensor, begin_s: float) -> None:
        """Ends an exchange that began while the worker went on."""
        self._late.receive(key, out)
        if self._recorder.active:
            self._recorder.add(key, "communicate", begin_s, max(begin_s, self._late.came_s(key)))

    def all_reduce(self, flat: Tensor) -> Tensor | Transfer:
        if not self._is_of_group:
            return super().all_reduce(flat)
        with self._recorder.span(self._key, "communicate"):
            return self._join(flat[0].cpu()).to(flat.device)[None]


def slots_of(projection: Projection) -> list[Slot]:
    """The late exchanges of a worker's programs, those of one key once."""
    cycle, found = projection.cycle, dict[str, Slot]()
    for op in (op for op in cycle.operators_of_epochs() if op.attributes.get("late")):
        sent, received = projection.counts(op.attributes["route"], back=bool(op.attributes.get("back")))
        width, most = cycle.values[op.reads[0]].width, op.attributes["max_staleness"]
        found[op.key] = Slot(op.key, received, sent, width, most)
    return list(found.values())
