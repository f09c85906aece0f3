"""Deciding again between epochs which rows a worker makes, from what its recent epochs took (NeutronCloud, 4.2).

No rows move: what may be cached is staged. Workers first tell each other how long they were in every exchange, so that
waiting for a slow peer is not taken for a slow link, and then whether anybody wants another split.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist

from planner.hybrid.adjust import Adjuster
from planner.hybrid.dependencies import Rates
from planner.hybrid.levels import Levels
from planner.hybrid.rates import RateMonitor, pace_of, shares_s
from planner.hybrid.split import SplitWork, make_split, work_of
from planner.hybrid.staging import Staged
from planner.program import Step
from planner.trace import Adjusted
from runtime.full_batch import EpochRecord
from runtime.hybrid.model import HybridModel

_WORTH = 0.02  # of an epoch: what another split must save at least
_PAYS_BACK = 5  # epochs in which it must save what setting it up took: weather may change again
_FEW_ROWS = 0.05  # of a level's: an exchange of no more shows what it takes anyway
_NUM_LATENCIES = 9  # exchanges of few rows, whose median counts


class Adjusting:
    """One worker's part in it.

    Args:
        model: that trains; its split is changed here.
        staged: what it may make rows from.
        planned: its rates by the plan.
        latency_s: of an exchange of next to nothing.
    """

    def __init__(self, model: HybridModel, staged: Staged, levels: Levels, planned: Rates, latency_s: float) -> None:
        dependencies = staged.dependencies
        self._model, self._levels = model, levels
        self._latencies_s = deque([latency_s], _NUM_LATENCIES)
        self._near, self._first, self._may_cache = staged.near, staged.first, staged.may_cache
        self._adjuster = Adjuster(dependencies, float(dependencies.alone.num_bytes.sum()), planned)
        self._size = len(planned.row_s)
        self._monitor = RateMonitor(planned, self._work_of(np.ones_like(staged.may_cache)).saved_floats)
        self._gathers = [step for step in model.program.steps if step.op in ("aggregate", "exchange")]
        self.cached = staged.cached
        self._planned, self._work = staged.cached, self._work_of(staged.cached)
        self._planned_work = self._work
        self._online = self._planned, self._planned_work
        self._adjuster.adjust(planned)  # what is compiled is ready from now on

    def after(self, record: EpochRecord) -> Adjusted:
        """Looks at an epoch with all its spans and sets up the next one. Every worker must call it."""
        seconds = {key: end_s - begin_s for key, _, begin_s, end_s in record.spans}
        waited_s = self._waited_s(seconds)
        begin_s = time.monotonic()
        self._observe(seconds, waited_s)
        rates, epoch_s = self._monitor.rates, record.end_s - record.start_s
        best, work, bound_s = self._choose(rates, epoch_s)
        is_other, decided_s = bool((best != self.cached).any()), time.monotonic()
        changes = self._anybody(is_other)
        set_up_begin_s = time.monotonic()
        if changes:
            self._model.apply(best)
        self.cached, self._work = best, work
        saved_s = work.saved_s(rates)
        return Adjusted(
            epoch=record.epoch,
            worker=dist.get_rank(),
            num_cached=int(best.sum()),
            changed=is_other,
            saved_s=saved_s,
            bound_s=max(bound_s, saved_s),
            seconds=decided_s - begin_s,
            set_up_s=time.monotonic() - set_up_begin_s if changes else 0.0,
        )

    def _choose(self, rates: Rates, epoch_s: float) -> tuple[np.ndarray, SplitWork, float]:
        """(what to cache, its work, a bound): the online choice, the plan's or the present one, by their true costs."""
        adjustment = self._adjuster.adjust(self._monitor.steady)
        present_s, worth_s = self._work.saved_s(rates), max(_WORTH * epoch_s, self._model.set_up_s / _PAYS_BACK)
        if adjustment.bound_s - present_s <= worth_s:
            return self.cached, self._work, adjustment.bound_s
        online = np.zeros_like(self._may_cache)
        online.ravel()[np.flatnonzero(self._may_cache.ravel())[adjustment.cached()]] = True
        if (online != self._online[0]).any():
            self._online = online, self._work_of(online)
        best, work = max((self._online, (self._planned, self._planned_work)), key=lambda each: each[1].saved_s(rates))
        if work.saved_s(rates) - present_s <= worth_s:
            best, work = self.cached, self._work
        return best, work, adjustment.bound_s

    def _work_of(self, cached: np.ndarray) -> SplitWork:
        return work_of(make_split(self._near, self._first, cached), self._near, self._levels, self._size)

    def _observe(self, seconds: Mapping[str, float], waited_s: np.ndarray) -> None:
        model = self._model
        pace = pace_of(seconds, model.program, self._levels, len(model.vertices), model.num_own_edges, model.sizes())
        taken_s, floats = np.zeros(self._size), np.zeros(self._size)
        for step, waiting_s in zip(self._gathers, waited_s, strict=True):
            one_way_s, of_step = self._exchanged(step, seconds, waiting_s)
            # Gradients are taken to go back in the time that the rows took to come.
            taken_s += one_way_s if step.constant else 2 * one_way_s
            floats += of_step
        self._monitor.observe(pace, taken_s, floats)

    def _exchanged(self, step: Step, seconds: Mapping[str, float], waiting_s: float) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, floats) [W] of the rows that came from each owner in one exchange."""
        exchanger = self._model.blocks[self._model.steps.rows[step.name]].exchanger
        floats = np.array(exchanger.recv_counts, np.float64) * step.in_width
        whole_s = seconds[_exchange_key(step)]
        arrived_s = exchanger.arrived_s.get(step.name, np.full(self._size, whole_s))
        arrived_s = np.maximum(arrived_s - waiting_s, 0.0)
        if 0 < exchanger.num_halo <= _FEW_ROWS * self._model.whole.num_halo:
            self._latencies_s.append(float(arrived_s.max()))
            return np.zeros(self._size), np.zeros(self._size)
        latency_s = float(np.median(self._latencies_s))
        return shares_s(np.maximum(arrived_s - latency_s, 0.0), floats), floats

    def _waited_s(self, seconds: Mapping[str, float]) -> np.ndarray:
        """Seconds that this worker waited in every forward exchange for the last to come, who waits for nobody."""
        spent_s = np.array([seconds[_exchange_key(step)] for step in self._gathers])
        least = torch.from_numpy(spent_s.copy()).to(self._model.recorder.device)
        dist.all_reduce(least, dist.ReduceOp.MIN)
        return spent_s - least.cpu().numpy()

    def _anybody(self, wants: bool) -> bool:
        flag = torch.tensor([wants], dtype=torch.int32, device=self._model.recorder.device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag.item())


def _exchange_key(step: Step) -> str:
    return f"{step.name}/exchange/forward"
