"""Adjusting among workers that are always in step: what they tell each other travels with their gradients.

They tell when they came to every exchange of the epoch, so that waiting for a slow peer is not taken for a slow link;
and whether what they saw of the epoch before made them want another split, which all then set up. So an epoch in
which nothing changes costs no message. After one that was far longer or shorter than those before it, as all see alike,
they do not wait for the next to be told, but ask each other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.hybrid.rates import shares_s
from gnnplan.planner.steps import Step
from gnnplan.planner.trace import Adjusted
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.hybrid.adjusting import Adjusting, Choice
from gnnplan.runtime.hybrid.clocks import seconds_behind
from gnnplan.runtime.hybrid.exchanger import LevelExchanger

_NUM_LATENCIES = 9  # exchanges of few rows, whose median counts
_CLOCK_EPOCHS = 200  # clocks drift by some seconds a day: in so many epochs by less than an exchange takes
_MOVED = 1.25  # times as long or as short as usual: asking costs more of a short epoch than it may bring
_NUM_LENGTHS = 5  # epochs whose median is usual
_CLOCK_S = 4096.0  # moments are told without what is whole in these, so that float32 has microseconds of them


class InStep:
    """One worker's part in it.

    Args:
        adjusting: its rates and choices.
        latency_s: of an exchange of next to nothing, by the plan.
    """

    def __init__(self, adjusting: Adjusting, latency_s: float) -> None:
        self._adjusting = adjusting
        self._latencies_s = deque([latency_s], _NUM_LATENCIES)
        self._wanted: Choice | None = None
        self._behind_s, self._asked_s = 0.0, 0.0
        self._heard = np.empty((0, 0))
        self._last_s: float | None = None
        self._lengths_s: deque[float] = deque(maxlen=_NUM_LENGTHS)

    def before(self, epoch: int) -> None:
        """Now and then workers ask what time it is. Every worker must call it before every epoch."""
        if epoch == 0:
            self._adjusting.begin()
        if epoch % _CLOCK_EPOCHS == 0:
            begin_s = time.monotonic()
            self._behind_s = seconds_behind(self._adjusting.model.recorder.device)
            self._asked_s = time.monotonic() - begin_s
            self._last_s = None

    def told(self) -> Tensor:
        """float32 [W (2 G + 1)], what this worker tells after it came to all G exchanges; others have 0 in its place.

        For each exchange whole seconds and parts of one, on worker 0's clock; then whether it wants another split.
        """
        recorder = self._adjusting.model.recorder
        begun_s = np.array([recorder.begun_s(_exchange_key(step)) for step in self._adjusting.gathers])
        parts, whole = np.modf((begun_s + self._behind_s) % _CLOCK_S)
        words = np.zeros((self._adjusting.size, 2 * len(begun_s) + 1), np.float32)
        words[dist.get_rank()] = [*whole, *parts, self._wanted is not None]
        return torch.from_numpy(words.ravel()).to(recorder.device)

    def hear(self, summed: Tensor) -> None:
        """Takes what all told, added up."""
        self._heard = summed.cpu().numpy().astype(np.float64).reshape(self._adjusting.size, -1)

    def after(self, record: EpochRecord) -> Adjusted:
        """Looks at an epoch with all its spans and sets up the next one. Every worker must call it."""
        seconds = {key: end_s - begin_s for key, _, begin_s, end_s in record.spans}
        waited_s, moved = self._waited_s(), self._has_moved()
        # Backward they are taken to wait as long as forward.
        both_ways_s = sum((1 if s.constant else 2) * waited_s[s.name] for s in self._adjusting.gathers)
        choice = self._adjusting.look(
            record,
            lambda step: self._exchanged(step, seconds, waited_s[step.name]),
            moved=moved,
            waited_s=both_ways_s,
        )
        is_wanted, set_up_s = bool(self._heard[:, -1].any()), None
        if is_wanted and self._wanted:  # what was agreed on is done, though this epoch may say otherwise
            choice = replace(self._wanted, epoch=record.epoch, seconds=choice.seconds)
        elif moved and not is_wanted:
            is_wanted = self._anybody(choice.is_other)
        if is_wanted:
            set_up_s = self._adjusting.take(choice)
            self._last_s = None
        self._wanted = choice if choice.is_other and not is_wanted else None
        agreeing_s, self._asked_s = self._asked_s, 0.0
        return self._adjusting.adjusted(choice, dist.get_rank(), set_up_s, agreeing_s)

    def _anybody(self, wants: bool) -> bool:
        """Whether this worker or another wants another split. Every worker must call it."""
        begin_s = time.monotonic()
        answers = torch.tensor([float(wants)], device=self._adjusting.model.recorder.device)
        dist.all_reduce(answers)
        self._asked_s += time.monotonic() - begin_s
        return bool(answers.item())

    def _has_moved(self) -> bool:
        """Whether this epoch's length, from when all had come to the last exchange, is far from usual.

        It follows from what all heard, so all find the same. What is usual begins anew where it moves. An epoch has not
        where workers set something up or asked for the time before it.
        """
        before_s, self._last_s = self._last_s, float(self._come_s()[:, -1].max())
        if before_s is None:
            return False
        length_s = (self._last_s - before_s) % _CLOCK_S
        usual_s = float(np.median(self._lengths_s)) if self._lengths_s else length_s
        moved = max(length_s, usual_s) > _MOVED * min(length_s, usual_s)
        if moved:
            self._lengths_s.clear()
        self._lengths_s.append(length_s)
        return moved

    def _come_s(self) -> np.ndarray:
        """float64 [W, G], when each worker came to each forward exchange, on worker 0's clock.

        Told without what is whole in `_CLOCK_S`: the others' moments are those nearest to worker 0's.
        """
        num_gathers = len(self._adjusting.gathers)
        come_s = self._heard[:, :num_gathers] + self._heard[:, num_gathers : 2 * num_gathers]
        return come_s[0] + _nearest(come_s - come_s[0])

    def _exchanged(self, step: Step, seconds: Mapping[str, float], waited_s: float) -> tuple[np.ndarray, np.ndarray]:
        model, size = self._adjusting.model, self._adjusting.size
        exchanger = model.exchanger_of(step)
        assert isinstance(exchanger, LevelExchanger)
        floats = np.array(exchanger.recv_counts, np.float64) * step.in_width
        arrived_s = exchanger.arrived_s.get(step.name, np.full(size, seconds[_exchange_key(step)]))
        arrived_s = np.maximum(arrived_s - waited_s, 0.0)
        if self._adjusting.is_few(exchanger.num_halo):
            if exchanger.num_halo:
                self._latencies_s.append(float(arrived_s.max()))
            return np.zeros(size), np.zeros(size)
        latency_s = float(np.median(self._latencies_s))
        return shares_s(np.maximum(arrived_s - latency_s, 0.0), floats), floats

    def _waited_s(self) -> dict[str, float]:
        """Seconds that this worker waited in every forward exchange for the last to come, who waits for nobody.

        How long others are in an exchange says nothing: one may have little to receive.
        """
        come_s, gathers = self._come_s(), self._adjusting.gathers
        waited_s = come_s.max(0) - come_s[dist.get_rank()]
        return {step.name: float(seconds) for step, seconds in zip(gathers, waited_s, strict=True)}


def _nearest(later_s: np.ndarray) -> np.ndarray:
    """Differences of moments told without what is whole in `_CLOCK_S`."""
    return (later_s + _CLOCK_S / 2) % _CLOCK_S - _CLOCK_S / 2


def _exchange_key(step: Step) -> str:
    return f"{step.name}/exchange/forward"
