"""Why a task missed its prediction, as far as two traces can tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnnplan.planner.trace import Trace

Cause = Literal["unprofiled", "waiting", "less_waiting", "variance", "contention", "operator"]

_MOST = 0.5  # of a miss that waiting must explain
_SLOWER = 1.1  # a worker whose tasks all take this much longer than predicted shares something
_ALIKE = 0.25  # relative distance from the worker's own pace


@dataclass(frozen=True)
class Reason:
    """A cause, and what it names: the worker most often waited for, or predicted to be waited for (`less_waiting`)."""

    cause: Cause
    worker: int | None = None


@dataclass(frozen=True)
class _Side:
    """A trace by task: (start, end) of every worker in every epoch. Of one that runs several times, as long as all."""

    edges: Mapping[str, Mapping[int, Mapping[int, tuple[float, float]]]]  # task, epoch, worker
    category: Mapping[str, str]

    @classmethod
    def of(cls, trace: Trace) -> _Side:
        edges: dict[str, dict[int, dict[int, tuple[float, float]]]] = defaultdict(lambda: defaultdict(dict))
        for span in trace.spans:
            of_epoch = edges[span.task][span.epoch]
            start_s, end_s = of_epoch.get(span.worker, (span.start_s, span.start_s))
            of_epoch[span.worker] = start_s, end_s + span.end_s - span.start_s
        return cls(edges, {span.task: span.category for span in trace.spans})

    def seconds(self, task: str) -> list[float]:
        """Mean seconds over workers, one value an epoch."""
        return [float(np.mean([end - start for start, end in e.values()])) for e in self.edges[task].values()]

    def waiting_s(self, task: str) -> float:
        """Mean seconds that workers wait for the last to come, median over epochs."""
        waits = []
        for members in self.edges[task].values():
            last_s = max(start for start, _ in members.values())
            waits.append(float(np.mean([last_s - start for start, _ in members.values()])))
        return float(np.median(waits))

    def last_to_come(self, task: str) -> int:
        """The worker that came last in most epochs."""
        last = [max(members, key=lambda w: members[w][0]) for members in self.edges[task].values()]
        return max(set(last), key=last.count)

    def worker_seconds(self, task: str) -> dict[int, float]:
        """Median seconds of each worker."""
        by_worker: dict[int, list[float]] = defaultdict(list)
        for members in self.edges[task].values():
            for worker, (start, end) in members.items():
                by_worker[worker].append(end - start)
        return {worker: float(np.median(values)) for worker, values in by_worker.items()}


class Causes:
    """Looks for the cause of each task's miss between a predicted and a measured trace of one plan."""

    def __init__(self, predicted: Trace, measured: Trace) -> None:
        self._predicted, self._measured = _Side.of(predicted), _Side.of(measured)
        self._unprofiled = {span.task for span in predicted.spans if span.unprofiled}
        self._pace = self._paces()

    def of(self, task: str) -> Reason:
        """The first that applies:

        - `waiting`: a collective whose members waited so much longer for the last to come that it explains
          most of the miss;
        - `less_waiting`: the same where they waited so much less than predicted;
        - `unprofiled`: the shape lies outside the profile;
        - `variance`: the task itself spreads by as much from epoch to epoch;
        - `contention`: its workers are slower than profiled in everything, by about as much;
        - `operator`: none of these, so the operator was profiled wrongly for this shape.
        """
        seconds = self._measured.seconds(task)
        miss_s = float(np.median(self._predicted.seconds(task))) - float(np.median(seconds))
        if self._measured.category[task] == "communicate":
            explained_s = self._predicted.waiting_s(task) - self._measured.waiting_s(task)
            if miss_s and explained_s / miss_s >= _MOST:
                if explained_s > 0:
                    return Reason("less_waiting", self._predicted.last_to_come(task))
                return Reason("waiting", self._measured.last_to_come(task))
        if task in self._unprofiled:
            return Reason("unprofiled")
        low, high = np.percentile(seconds, [25, 75])
        if high - low >= abs(miss_s):
            return Reason("variance")
        return Reason("contention" if self._keeps_pace(task) else "operator")

    def _keeps_pace(self, task: str) -> bool:
        """Whether the task is slower on all its workers just as everything is slower there."""
        ours, theirs = self._predicted.worker_seconds(task), self._measured.worker_seconds(task)
        for worker in ours.keys() & theirs.keys():
            pace = self._pace.get(worker, 1.0)
            if not ours[worker] or pace < _SLOWER or abs(theirs[worker] / ours[worker] / pace - 1) > _ALIKE:
                return False
        return True

    def _paces(self) -> dict[int, float]:
        """Each worker's measured over predicted seconds: median over its compute tasks, each by its seconds."""
        ratios: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for task, category in self._measured.category.items():
            if category != "compute" or task not in self._predicted.category:
                continue
            ours, theirs = self._predicted.worker_seconds(task), self._measured.worker_seconds(task)
            for worker in ours.keys() & theirs.keys():
                if ours[worker]:
                    ratios[worker].append((theirs[worker] / ours[worker], ours[worker]))
        return {worker: _weighted_median(values) for worker, values in ratios.items()}


def _weighted_median(values: list[tuple[float, float]]) -> float:
    ordered = sorted(values)
    half, seen = sum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        seen += weight
        if seen >= half:
            return value
    return ordered[-1][0]
