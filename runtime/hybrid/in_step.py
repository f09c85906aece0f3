"""Adjusting among workers that are always in step: after every epoch they agree whether anybody wants another split.

They first tell each other when in the epoch they came to every exchange, so that waiting for a slow peer is not taken
for a slow link.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist

from planner.hybrid.rates import shares_s
from planner.program import Step
from planner.trace import Adjusted
from runtime.full_batch import EpochRecord
from runtime.hybrid.adjusting import Adjusting, Choice
from runtime.hybrid.exchanger import LevelExchanger

_NUM_LATENCIES = 9  # exchanges of few rows, whose median counts


class InStep:
    """One worker's part in it.

    Args:
        adjusting: its rates and choices.
        latency_s: of an exchange of next to nothing, by the plan.
    """

    def __init__(self, adjusting: Adjusting, latency_s: float) -> None:
        self._adjusting = adjusting
        self._latencies_s = deque([latency_s], _NUM_LATENCIES)

    def after(self, record: EpochRecord) -> Adjusted:
        """Looks at an epoch with all its spans and sets up the next one. Every worker must call it."""
        asked_s = time.monotonic()
        seconds = {key: end_s - begin_s for key, _, begin_s, end_s in record.spans}
        waited_s = self._waited_s({key: begin_s - record.start_s for key, _, begin_s, _ in record.spans})
        choice = self._adjusting.look(record, lambda step: self._exchanged(step, seconds, waited_s[step.name]))
        is_wanted = self._anybody(choice.is_other)
        agreeing_s = time.monotonic() - asked_s - choice.seconds
        set_up_s = self._set_up(choice) if is_wanted else None
        return self._adjusting.adjusted(choice, dist.get_rank(), set_up_s, agreeing_s)

    def _set_up(self, choice: Choice) -> float:
        seconds = self._adjusting.take(choice)
        dist.barrier()  # all begin the next epoch together: moments in it are counted from its begin
        return seconds

    def _exchanged(self, step: Step, seconds: Mapping[str, float], waiting_s: float) -> tuple[np.ndarray, np.ndarray]:
        model, size = self._adjusting.model, self._adjusting.size
        exchanger = model.exchanger_of(step)
        assert isinstance(exchanger, LevelExchanger)
        floats = np.array(exchanger.recv_counts, np.float64) * step.in_width
        arrived_s = exchanger.arrived_s.get(step.name, np.full(size, seconds[_exchange_key(step)]))
        arrived_s = np.maximum(arrived_s - waiting_s, 0.0)
        if self._adjusting.is_few(exchanger.num_halo):
            if exchanger.num_halo:
                self._latencies_s.append(float(arrived_s.max()))
            return np.zeros(size), np.zeros(size)
        latency_s = float(np.median(self._latencies_s))
        return shares_s(np.maximum(arrived_s - latency_s, 0.0), floats), floats

    def _waited_s(self, come_s: Mapping[str, float]) -> dict[str, float]:
        """Seconds that this worker waited in every forward exchange for the last to come, who waits for nobody.

        All left the last reduction together, so seconds since the epoch began need no common clock. How long others
        are in an exchange says nothing: one may have little to receive.

        Args:
            come_s: seconds from the epoch's begin to that of each task, by key.
        """
        gathers = self._adjusting.gathers
        own_s = np.array([come_s[_exchange_key(step)] for step in gathers])
        last = torch.from_numpy(own_s.copy()).to(self._device)
        dist.all_reduce(last, dist.ReduceOp.MAX)
        return {step.name: float(w) for step, w in zip(gathers, last.cpu().numpy() - own_s, strict=True)}

    def _anybody(self, wants: bool) -> bool:
        flag = torch.tensor([wants], dtype=torch.int32, device=self._device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag.item())

    @property
    def _device(self) -> torch.device:
        return self._adjusting.model.recorder.device


def _exchange_key(step: Step) -> str:
    return f"{step.name}/exchange/forward"
