"""A training that takes longer, or shorter, than predicted for long: one line that says why, as far as can be told.

While it trains only the first worker's longest tasks are known, of epochs that are traced. So causes are those that one
worker can tell: `compare` sees all workers when the run has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isclose

import numpy as np

from gnnplan.planner.plan import Plan
from gnnplan.planner.report.units import seconds
from gnnplan.planner.schedule import Category
from gnnplan.planner.trace import Trace
from gnnplan.profiles.launch import Event

LONG_S = 30.0
_TOLERATED = 1.25  # and its inverse
_LEAST_EVENTS = 10
_SLOWER = 1.1  # a worker all of whose computing takes this much longer shares something
_ALIKE = 0.25  # relative distance of a task's pace from the worker's


@dataclass
class Drift:
    """Listens to a run's events; `words_of` has the line, once.

    Args:
        predicted_s: of an epoch.
        tasks: predicted of the first worker: seconds in an epoch, and category.
        others: alternatives in words, with the predicted seconds of their epochs.
    """

    predicted_s: float
    tasks: Mapping[str, tuple[float, Category]]
    others: Mapping[str, float]
    clock: Callable[[], float] = time.monotonic
    _since_s: float | None = None
    _drifting: list[float] = field(default_factory=list)
    _measured: Mapping[str, float] = field(default_factory=dict)
    _has_said: bool = False

    @classmethod
    def of(cls, plan: Plan, predicted: Trace) -> Drift:
        """Of a run of the plan."""
        tasks: dict[str, tuple[float, Category]] = {}
        for span in predicted.spans:
            if span.worker == 0:
                before = tasks.get(span.task, (0.0, span.category))[0]
                tasks[span.task] = before + span.end_s - span.start_s, span.category
        epochs: dict[str, set[int]] = {}
        for span in predicted.spans:
            epochs.setdefault(span.task, set()).add(span.epoch)
        means = {task: (total / len(epochs[task]), category) for task, (total, category) in tasks.items()}
        own_s = plan.prediction.long_run_epoch_s  # the plan stands among what was considered, not always first
        own = next((each for each in plan.considered if isclose(each.epoch_s, own_s, rel_tol=1e-9)), None)
        own = next(iter(plan.considered), None) if plan.mini_batch else own
        others = {each.summary: each.epoch_s for each in plan.considered if each.fits and each is not own}
        return cls(plan.prediction.each_of_many_s, means, others)

    def words_of(self, event: Event) -> str:
        """What is to be said now (empty: nothing)."""
        self._measured = event.get("tasks", self._measured)
        if event["event"] != "epoch" or "epoch_s" not in event or self._has_said or not self.predicted_s:
            return ""
        ratio = event["epoch_s"] / self.predicted_s
        if 1 / _TOLERATED <= ratio <= _TOLERATED or (self._drifting and (ratio > 1) != (self._drifting[0] > 1)):
            self._since_s, self._drifting = None, []
            return ""
        self._since_s = self.clock() if self._since_s is None else self._since_s
        self._drifting.append(ratio)
        if len(self._drifting) < _LEAST_EVENTS or self.clock() - self._since_s < LONG_S:
            return ""
        self._has_said = True
        return self._words(float(np.median(self._drifting)))

    def _words(self, ratio: float) -> str:
        measured_s = ratio * self.predicted_s
        for_s = self.clock() - (self._since_s or 0.0)
        drift = f"for {for_s:.0f} s epochs have taken {ratio:.2g} times what was predicted"
        faster = [(epoch_s, words) for words, epoch_s in self.others.items() if epoch_s < measured_s / _TOLERATED]
        said = [drift, self._cause()]
        if ratio > 1 and faster:
            epoch_s, words = min(faster)
            now = f"and this one takes {seconds(measured_s)}"
            said.append(f"another plan ({words}) is predicted to take {seconds(epoch_s)}, {now}")
        elif ratio > 1:
            said.append("no other plan that was looked at is predicted to be faster than this one is now")
        return "; ".join(filter(None, said))

    def _cause(self) -> str:
        """By what one worker can tell, as `gnnplan.planner.causes` has it."""
        told = {task: its for task, its in self.tasks.items() if task in self._measured and its[0] > 0}
        both = {task: (ours_s, self._measured[task], category) for task, (ours_s, category) in told.items()}
        if not both:
            return "`gnnplan compare` names the cause when the run has ended"
        task = max(both, key=lambda name: abs(both[name][1] - both[name][0]))
        ours_s, theirs_s, category = both[task]
        pace = np.median([theirs / ours for ours, theirs, of in both.values() if of == "compute"] or [1.0])
        change = f"{task} takes {seconds(theirs_s)} on worker 0 where {seconds(ours_s)} was predicted"
        if category == "communicate":
            return f"communication: {change}, the link or another worker is at fault"
        if pace >= _SLOWER and abs(theirs_s / ours_s / pace - 1) <= _ALIKE:
            paced = f"all that worker 0 computes takes {pace:.3g} times as long"
            return f"contention: {paced}, so other work shares its machine"
        return f"operator: {change}"
