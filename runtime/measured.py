"""The measured trace of a run, from what every worker recorded of its epochs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.load import MachineLoad, others_share
from gnnplan.runtime.epoch_record import EpochRecord

UNTIMED_EPOCHS = 2
"""First epochs, in which buffers and code are made: no figure counts them."""


def measured_trace(
    plan: Plan,
    gathered: list[dict],
    accuracy: dict[str, float],
    losses_before: Sequence[float] = (),
    metric: str = "accuracy",
) -> Trace:
    """Lays the workers' records side by side, epoch by epoch.

    Under partial reduce a worker may be missing from some epochs. It counts for the epoch whose step it took part in;
    tasks that it began in an earlier one are left out, since they lie outside that epoch.

    Args:
        gathered: of every worker, `records`, `peak_bytes`, `setup_s`, `stolen_share` and `load`.
        losses_before: of epochs of a run that this one goes on from.
        metric: what the accuracies are.
    """
    by_worker = [{record["epoch"]: EpochRecord(**record) for record in entry["records"]} for entry in gathered]
    interval = plan.refresh_interval
    epochs = sorted(set().union(*by_worker))
    by_epoch = [{worker: of[epoch] for worker, of in enumerate(by_worker) if epoch in of} for epoch in epochs]
    firsts = [next(iter(records.values())) for records in by_epoch]
    is_partial = plan.partial is not None
    return Trace(
        origin="measured",
        plan_fingerprint=plan.fingerprint(),
        num_workers=plan.num_workers,
        spans=tuple(span for records in by_epoch for span in _spans(records)),
        epoch_s=_epoch_s(by_epoch)[min(UNTIMED_EPOCHS, len(epochs) - 1) :],
        peak_bytes=tuple(entry["peak_bytes"] for entry in gathered),
        sent_bytes=_sent_bytes(by_worker, interval, refresh=True),
        reuse_sent_bytes=_sent_bytes(by_worker, interval, refresh=False),
        refresh_interval=interval,
        losses=(*losses_before, *(record.loss for record in firsts)),
        accuracy=accuracy,
        metric=metric,
        setup_s=max(entry["setup_s"] for entry in gathered),
        stolen_share=max(entry["stolen_share"] for entry in gathered),
        others_share=others_share([MachineLoad(**entry["load"]) for entry in gathered]),
        num_members=tuple(record.num_members for record in firsts) if is_partial else (),
        oldest=tuple(max(r.oldest for r in records.values()) for records in by_epoch) if is_partial else (),
    )


def _in_step(records: dict[int, EpochRecord]) -> dict[int, EpochRecord]:
    """Of the workers that took part in an epoch's step, those that began the epoch too."""
    return {worker: record for worker, record in records.items() if record.begun in (None, record.epoch)}


def _epoch_s(by_epoch: list[dict[int, EpochRecord]]) -> tuple[float, ...]:
    """From the last worker's end of the epoch before to that of each; the first's from when the first began it.

    Time in which the training was held is left out.
    So epochs add up to the time that all take, also where a worker begins the next one before the others have ended.
    One that is stopped right after a step may end it after the others ended the next: then they end together.
    """
    begin_s = min(r.start_s for r in by_epoch[0].values())
    ends_s = np.maximum.accumulate([max(r.end_s - r.paused_s for r in records.values()) for records in by_epoch])
    return tuple(np.diff(ends_s, prepend=begin_s).tolist())


def _spans(records: dict[int, EpochRecord]) -> list[Span]:
    in_step = _in_step(records)
    origin_s = min((record.start_s for record in in_step.values()), default=0.0)  # all may have come late
    return [
        Span(
            task=key,
            worker=worker,
            epoch=record.epoch,
            category=category,
            start_s=max(begin_s - origin_s, 0.0),
            end_s=max(end_s - origin_s, 0.0),
        )
        for worker, record in in_step.items()
        for key, category, begin_s, end_s in record.spans
    ]


def _sent_bytes(by_worker: list[dict[int, EpochRecord]], interval: int, *, refresh: bool) -> tuple[int, ...]:
    """What each worker sent in the last epoch that the interval divides, or in the mean of the last others.

    Empty where there was none.
    """
    count = 1 if refresh else interval - 1
    of_kind = [[r.sent_bytes for epoch, r in of.items() if (epoch % interval == 0) == refresh] for of in by_worker]
    return tuple(round(float(np.mean(sent[-count:]))) for sent in of_kind) if all(of_kind) else ()
