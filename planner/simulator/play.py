"""The predicted trace of a plan: its schedule, played on the virtual clock."""

from __future__ import annotations

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


def interval_trace(refresh: Trace, reuse: Trace, refresh_interval: int) -> Trace:
    """The predicted trace of a refresh interval: epoch 0 sends all embeddings, epoch 1 stands for those after it.

    Args:
        refresh, reuse: predicted traces of either epoch, each with its own sent bytes.
    """
    spans = tuple(span.model_copy(update={"epoch": 1}) for span in reuse.spans)
    return refresh.model_copy(
        update={
            "spans": refresh.spans + spans,
            "epoch_s": refresh.epoch_s + reuse.epoch_s * (refresh_interval - 1),
            "reuse_sent_bytes": reuse.sent_bytes,
            "refresh_interval": refresh_interval,
        }
    )
