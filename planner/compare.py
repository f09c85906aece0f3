"""Predicted against measured: the epoch, its parts, memory, bytes, and the tasks that miss most."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar

import numpy as np

from gnnplan.planner.causes import Cause, Causes
from gnnplan.planner.steadiness import unsteady_words
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError

_NO_FLUCTUATION = "the prediction is of tasks at their median: `simulate` without replicas does not let them vary"


class Figure(Contract):
    """One quantity on both sides; `error` is predicted / measured - 1 (None where nothing was measured)."""

    name: str
    unit: str
    predicted: float
    measured: float

    @property
    def error(self) -> float | None:
        """Relative error of the prediction."""
        return self.predicted / self.measured - 1 if self.measured else None


class TaskFigure(Contract):
    """A task's seconds on both sides: mean over workers that are in an epoch, median over traced epochs.

    `cause` is what the two traces tell of the miss (`gnnplan.planner.causes`); `worker` is who was most often
    waited for (`waiting`), or predicted to be (`less_waiting`).
    """

    task: str
    category: str
    predicted_s: float
    measured_s: float
    unprofiled: bool
    cause: Cause
    worker: int | None = None

    @property
    def miss_s(self) -> float:
        """Predicted minus measured seconds."""
        return self.predicted_s - self.measured_s


class Comparison(Document):
    """Two traces of one plan laid over each other by task key.

    Args:
        epoch_spread: interquartile range of the measured epochs over their median: errors below
            it are noise.
        stolen_share: of the processor time during the run, given to other machines by the hypervisor.
        others_share: used by other programs.
        epoch_range_s: nine in ten of the measured epochs are within.
        notes: what else to know of the two sides, in sentences.
        went_on_share: of the measured steps, those that went on without some worker; the prediction is of one of all.
        tasks: largest miss first.
        only_predicted, only_measured: task keys that one side lacks (empty for a faithful run).
    """

    KIND: ClassVar[str] = "comparison"

    plan_fingerprint: str
    figures: tuple[Figure, ...]
    epoch_spread: float
    stolen_share: float = 0.0
    others_share: float = 0.0
    epoch_range_s: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    went_on_share: float = 0.0
    tasks: tuple[TaskFigure, ...]
    only_predicted: tuple[str, ...]
    only_measured: tuple[str, ...]
    accuracy: dict[str, float]
    metric: str = "accuracy"

    def figure(self, name: str) -> Figure:
        """A figure by its name, e.g. `epoch`."""
        return next(figure for figure in self.figures if figure.name == name)


def compare(predicted: Trace, measured: Trace) -> Comparison:
    """Compares the traces of one plan; `UserError` where they are not of the same plan."""
    if predicted.origin != "predicted" or measured.origin != "measured":
        raise UserError("compare takes a predicted trace and a measured one, in this order")
    if predicted.plan_fingerprint != measured.plan_fingerprint:
        raise UserError(
            f"the traces belong to different plans ({predicted.plan_fingerprint} and {measured.plan_fingerprint}); "
            f"simulate the plan that was run"
        )
    ours, theirs = _task_seconds(predicted), _task_seconds(measured)
    unprofiled = {span.task for span in predicted.spans if span.unprofiled}
    category = {span.task: span.category for span in (*predicted.spans, *measured.spans)}
    causes = Causes(predicted, measured)
    reasons = {key: causes.of(key) for key in ours.keys() & theirs.keys()}
    tasks = [
        TaskFigure(
            task=key,
            category=category[key],
            predicted_s=ours[key],
            measured_s=theirs[key],
            unprofiled=key in unprofiled,
            cause=reason.cause,
            worker=reason.worker,
        )
        for key, reason in reasons.items()
    ]
    return Comparison(
        schema_version=1,
        plan_fingerprint=predicted.plan_fingerprint,
        figures=_figures(predicted, measured),
        epoch_spread=measured.epoch_spread_s / (measured.median_epoch_s or measured.mean_epoch_s),
        stolen_share=measured.stolen_share,
        others_share=measured.others_share,
        epoch_range_s=measured.epoch_range_s,
        notes=tuple(filter(None, [unsteady_words(predicted, measured) if predicted.fluctuating else _NO_FLUCTUATION])),
        went_on_share=_went_on_share(measured),
        tasks=tuple(sorted(tasks, key=lambda task: (-abs(task.miss_s), task.task))),
        only_predicted=tuple(sorted(ours.keys() - theirs.keys())),
        only_measured=tuple(sorted(theirs.keys() - ours.keys())),
        accuracy=measured.accuracy,
        metric=measured.metric,
    )


def _figures(predicted: Trace, measured: Trace) -> tuple[Figure, ...]:
    pairs = [("epoch", "s", predicted.expected_epoch_s, measured.median_epoch_s)]
    for category in ("compute", "communicate", "host"):
        pairs.append((category, "s", predicted.category_s(category), measured.category_s(category)))
    for worker, (ours, theirs) in enumerate(zip(predicted.peak_bytes, measured.peak_bytes)):
        pairs.append((f"peak memory, worker {worker}", "bytes", ours, theirs))
    for worker, (ours, theirs) in enumerate(zip(predicted.sent_bytes, measured.sent_bytes)):
        pairs.append((f"sent, worker {worker}", "bytes", ours, theirs))
    for worker, (ours, theirs) in enumerate(zip(predicted.reuse_sent_bytes, measured.reuse_sent_bytes)):
        pairs.append((f"sent while reusing, worker {worker}", "bytes", ours, theirs))
    return tuple(Figure(name=name, unit=unit, predicted=ours, measured=theirs) for name, unit, ours, theirs in pairs)


def _went_on_share(trace: Trace) -> float:
    went_on = [members < trace.num_workers for members in trace.num_members]
    return float(np.mean(went_on)) if went_on else 0.0


def _task_seconds(trace: Trace) -> dict[str, float]:
    by_task: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    num_workers = trace.workers_traced()
    for span in trace.spans:
        by_task[span.task][span.epoch] += (span.end_s - span.start_s) / num_workers[span.epoch]
    return {task: float(np.median(list(epochs.values()))) for task, epochs in by_task.items()}
