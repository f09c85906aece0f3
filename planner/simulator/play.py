"""The predicted trace of a plan: its schedule, played on the virtual clock."""

from __future__ import annotations

from collections.abc import Sequence

from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.trace import Span, Trace


def predicted_trace(
    schedule: Schedule, plan_fingerprint: str, peak_bytes: tuple[int, ...], sent_bytes: tuple[int, ...]
) -> Trace:
    """Plays epochs and writes the median one down as a trace, epoch 0, spans in schedule order.

    A span lasts from when the task takes its resource to its end: waiting for the other members
    of a group is inside, as it is in a measured collective.

    Args:
        schedule: one epoch.
        plan_fingerprint: the plan it was lowered from.
        peak_bytes: predicted peak memory of each worker.
        sent_bytes: predicted bytes each worker sends in one epoch.

    Raises `ValueError` as `play_epochs` does.
    """
    assert len(peak_bytes) == len(sent_bytes) == schedule.num_workers, (peak_bytes, sent_bytes)
    epochs = play_epochs(schedule)
    shown = epochs.median_epoch
    arrive_s, end_s = (epochs.arrive_ns[shown] / 1e9).tolist(), (epochs.end_ns[shown] / 1e9).tolist()
    spans = tuple(
        Span(
            task=task.key,
            worker=task.worker,
            epoch=0,
            category=task.category,
            start_s=arrive_s[index],
            end_s=end_s[index],
            unprofiled=task.unprofiled,
        )
        for index, task in enumerate(schedule.tasks)
    )
    return Trace(
        origin="predicted",
        plan_fingerprint=plan_fingerprint,
        num_workers=schedule.num_workers,
        spans=spans,
        epoch_s=(epochs.median_epoch_s,),
        peak_bytes=peak_bytes,
        sent_bytes=sent_bytes,
    )


def cycle_trace(played: Sequence[Trace], order: Sequence[int], reuse_sent_bytes: tuple[int, ...]) -> Trace:
    """The predicted trace of epochs that come over and over: of each kind the first one has its spans.

    Args:
        played: predicted traces of every kind of epoch.
        order: of each epoch its kind, which is 0 for the first.
        reuse_sent_bytes: predicted bytes each worker sends in an epoch after the first, in the mean.
    """
    spans = (
        span.model_copy(update={"epoch": order.index(kind)})
        for kind, trace in enumerate(played)
        for span in trace.spans
    )
    return played[0].model_copy(
        update={
            "spans": tuple(spans),
            "epoch_s": sum((played[kind].epoch_s for kind in order), ()),
            "reuse_sent_bytes": reuse_sent_bytes,
            "refresh_interval": len(order),
        }
    )
