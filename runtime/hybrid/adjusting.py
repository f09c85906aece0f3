"""Deciding again between epochs which rows a worker makes, from what its recent epochs took (NeutronCloud, 4.2).

No rows move: what may be cached is staged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.hybrid.adjust import Adjuster
from gnnplan.planner.hybrid.buffers import most_buffers
from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import Levels, levels_of
from gnnplan.planner.hybrid.rates import RateMonitor, pace_of
from gnnplan.planner.hybrid.split import SplitWork, make_split, work_of
from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.plan import Plan
from gnnplan.planner.steps import Step
from gnnplan.planner.trace import Adjusted
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.hybrid.model import HybridModel

_WORTH = 0.05  # of an epoch: what another split must save at least; less is lost where weather changes again
_PAYS_BACK = 5  # epochs in which it must save what setting it up took: weather may change again
_NUM_EPOCHS = 5  # whose median is an epoch's length: in one a worker may have slept
_WAITS = 0.05  # of an epoch: rows come while a worker waits so long for slower ones, and seem to take no time
_FEW_ROWS = 0.05  # of a level's: an exchange of no more shows what it takes anyway

Exchanged = Callable[[Step], tuple[np.ndarray, np.ndarray]]
"""(seconds, floats) float64 [W] of the rows that came from each owner in one exchange, seconds there only."""


@dataclass(frozen=True)
class Choice:
    """What a worker would make from now on.

    Args:
        cached: bool [l, h].
        work: what that costs and saves.
        is_other: than what it makes now.
        saved_s, present_s, bound_s: seconds an epoch that it saves, what is made now, and anything at most, at the
            rates of now.
        seconds: that choosing took.
    """

    epoch: int
    cached: np.ndarray
    work: SplitWork
    is_other: bool
    saved_s: float
    present_s: float
    bound_s: float
    seconds: float


class Adjusting:
    """One worker's rates and choices.

    Args:
        model: that trains; its split is changed here.
        staged: what it may make rows from.
        planned: its rates by the plan.
        blocks: of the pool, how many by their bytes, that the epochs of any split need.
    """

    def __init__(
        self,
        model: HybridModel,
        staged: Staged,
        levels: Levels,
        planned: Rates,
        blocks: Mapping[int, int] | None = None,
    ) -> None:
        dependencies = staged.dependencies
        self.model, self._levels = model, levels
        self._near, self._first, self._may_cache = staged.near, staged.first, staged.may_cache
        self._adjuster = Adjuster(dependencies, float(dependencies.alone.num_bytes.sum()), planned)
        self.size = len(planned.row_s)
        self._monitor = RateMonitor(planned, self._work_of(np.ones_like(staged.may_cache)).saved_floats)
        self.gathers: Sequence[Step] = [s for s in model.program.steps if s.op in ("aggregate", "exchange")]
        self.cached = staged.cached
        self._planned, self._work = staged.cached, self._work_of(staged.cached)
        self._planned_work = self._work
        self._online = self._planned, self._planned_work
        self._planned_rates = planned
        self._epoch_s: deque[float] = deque(maxlen=_NUM_EPOCHS)
        self.set_up_s = 0.0
        self._blocks = blocks or {}
        self._adjuster.adjust(planned)  # what is compiled is ready from now on

    @classmethod
    def of_plan(cls, plan: Plan, rank: int, model: HybridModel, staged: Staged) -> Adjusting | None:
        """Of a plan's worker; None where it was not planned to decide again."""
        decided = plan.layered.dependencies
        if decided.adjust != "online":
            return None
        levels = levels_of(plan.job.model, plan.layered.layers, plan.graph.num_features, plan.graph.num_classes)
        on_cpu = model.recorder.device.type == "cpu"
        blocks = most_buffers(plan, rank, model.most_levels()).pooled if on_cpu else None
        return cls(model, staged, levels, decided.workers[rank].rates, blocks)

    def begin(self) -> None:
        """Takes the memory that the epochs of any split need: the first under another one finds its pages there."""
        pool.reserve(self._blocks)

    def look(
        self,
        record: EpochRecord,
        exchanged: Exchanged,
        *,
        moved: bool = False,
        waited_s: float = 0.0,
        change_s: float = 0.0,
    ) -> Choice:
        """Learns from an epoch with all its spans, which ran under the present split, and chooses.

        Args:
            moved: its length is far from that of the epochs before it: what changed counts at once.
            waited_s: of the epoch, for slower workers.
            change_s: that another split costs beside what setting it up takes.
        """
        begin_s = time.monotonic()
        self._epoch_s.append(record.end_s - record.start_s)
        hides = waited_s > _WAITS * float(np.median(self._epoch_s))
        seconds_of = {key: end_s - start_s for key, _, start_s, end_s in record.spans}
        self._observe(seconds_of, exchanged, moved=moved, hides=hides)
        rates = self._monitor.rates
        best, work, bound_s = self._choose(rates, self._worth_s(change_s))
        is_other = bool((best != self.cached).any())
        saved_s, present_s = (each.saved_s(rates) for each in (work, self._work))
        seconds = time.monotonic() - begin_s
        return Choice(record.epoch, best, work, is_other, saved_s, present_s, bound_s, seconds)

    def take(self, choice: Choice) -> float:
        """Sets the model up for a choice while all others do, and returns the seconds that took."""
        begin_s = time.monotonic()
        self.model.apply(choice.cached)
        self.cached, self._work = choice.cached, choice.work
        seconds = time.monotonic() - begin_s
        if choice.is_other:
            self.set_up_s = seconds
        return seconds

    def adjusted(self, choice: Choice, rank: int, set_up_s: float | None, agreeing_s: float = 0.0) -> Adjusted:
        """What is recorded of a choice; `set_up_s` None where nothing was set up after it."""
        return Adjusted(
            epoch=choice.epoch,
            worker=rank,
            num_cached=int(self.cached.sum()),
            changed=choice.is_other and set_up_s is not None,
            saved_s=choice.present_s if set_up_s is None else choice.saved_s,
            bound_s=choice.bound_s,
            seconds=choice.seconds,
            agreeing_s=agreeing_s,
            set_up_s=set_up_s or 0.0,
        )

    @property
    def longer_s(self) -> float:
        """By how much parts of an epoch may take longer under the present split than under the plan's, at its rates."""
        return self._work.added_s(self._planned_work, self._planned_rates)

    def is_few(self, num_rows: int) -> bool:
        """Whether so few rows of a level came that their seconds say nothing of a link."""
        return num_rows <= _FEW_ROWS * self.model.whole.num_halo

    def _worth_s(self, change_s: float) -> float:
        """What another split must save an epoch, where changing costs `change_s` beside what setting it up takes."""
        return max(_WORTH * float(np.median(self._epoch_s)), (self.set_up_s + change_s) / _PAYS_BACK)

    def _choose(self, rates: Rates, worth_s: float) -> tuple[np.ndarray, SplitWork, float]:
        """(what to cache, its work, a bound): the online choice, the plan's or the present one, by their true costs.

        Args:
            worth_s: that another split must save an epoch, beyond what the present one does.
        """
        adjustment = self._adjuster.adjust(self._monitor.steady, rates)
        present_s = self._work.saved_s(rates)
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
        return work_of(make_split(self._near, self._first, cached), self._near, self._levels, self.size)

    def _observe(self, seconds: Mapping[str, float], exchanged: Exchanged, *, moved: bool, hides: bool) -> None:
        """Takes an epoch's rates; where waiting `hides` what rows took, no link was faster than planned."""
        model = self.model
        pace = pace_of(seconds, model.program, self._levels, len(model.vertices), model.num_own_edges, model.sizes())
        taken_s, floats, due = np.zeros(self.size), np.zeros(self.size), np.zeros(self.size, bool)
        for step in self.gathers:
            one_way_s, of_step = exchanged(step)
            # Gradients are taken to go back in the time that the rows took to come.
            taken_s += one_way_s if step.constant else 2 * one_way_s
            floats += of_step
            exchanger = model.exchanger_of(step)
            if not self.is_few(exchanger.num_halo):
                due |= np.array(exchanger.recv_counts) > 0
        if hides:
            taken_s = np.maximum(taken_s, np.asarray(self._planned_rates.row_s) * floats)
        self._monitor.observe(pace, taken_s, floats, due & (floats == 0), moved=moved)
