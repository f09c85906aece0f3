"""One picture of an epoch: predicted above measured, worker by worker, what overlaps in two lanes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gnnplan.planner.report.epoch_spans import last_to_come_s, median_epoch, waiting_until_s
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.contract import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {"compute": "#4477aa", "communicate": "#ee6677", "host": "#ccbb44"}
_WAITING = "#f6c3c9"
_LANES = {"compute": -0.42, "host": -0.42, "communicate": 0.0}  # of a row, their tops
_TALL = 0.42
_WIDTH_IN = 14.0
_LETTERS = 210  # that fit beside each other over the whole epoch


def write_picture(path: Path, predicted: Trace, measured: Trace) -> Path:
    """A PNG with one row per worker and side; of the measured epochs the one nearest the median is drawn.

    A row has two lanes, for what computes and for what travels: where both are filled they overlap. Who waits in an
    exchange for the last one to come is drawn pale. Tasks have their names where these fit.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    rows = [
        (name, trace, worker)
        for worker in range(predicted.num_workers)
        for name, trace in (("predicted", predicted), ("measured", measured))
    ]
    figure, axes = plt.subplots(figsize=(_WIDTH_IN, 1.4 + 0.7 * len(rows)), layout="constrained")
    epochs = {name: median_epoch(trace) for name, trace, _ in rows}
    drawn_s = max((s.end_s for name, trace, _ in rows for s in trace.spans if s.epoch == epochs[name]), default=1.0)
    for height, (name, trace, worker) in enumerate(rows):
        of_epoch = [span for span in trace.spans if span.epoch == epochs[name]]
        begun_s = last_to_come_s(of_epoch)
        for category, color in _COLORS.items():
            spans = [span for span in of_epoch if span.worker == worker and span.category == category]
            top, tall = height + _LANES[category], _TALL
            axes.broken_barh(
                [_bar(span) for span in spans], (top, tall), facecolors=color, edgecolor="white", linewidth=0.3
            )
            waiting = [bar for span in spans if (bar := _waiting(span, begun_s))]
            axes.broken_barh(waiting, (top, tall), facecolors=_WAITING, hatch="////", edgecolor="white", linewidth=0.3)
            for span in spans:
                _write_name(axes, span, top + tall / 2, drawn_s)
    axes.set_yticks(range(len(rows)), [f"worker {worker} {name}" for name, _, worker in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds from the start of the epoch")
    # What is drawn is the epoch in which no task fluctuates; expected is a longer one.
    drawn = f" ({predicted.median_epoch_s * 1e3:.1f} ms as drawn, without fluctuation)" if predicted.fluctuating else ""
    axes.set_title(
        f"one epoch: {predicted.expected_epoch_s * 1e3:.1f} ms predicted{drawn}, "
        f"{measured.median_epoch_s * 1e3:.1f} ms measured (median)"
    )
    keys = [Patch(color=color, label=name) for name, color in _COLORS.items()]
    keys.append(Patch(facecolor=_WAITING, hatch="////", edgecolor="white", label="waiting for the last worker"))
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
    plt.close(figure)
    return path


def _waiting(span: Span, last_s: Mapping[str, float]) -> tuple[float, float] | None:
    """The part of an exchange before the last one came, milliseconds."""
    until_s = waiting_until_s(span, last_s)
    return (span.start_s * 1e3, (until_s - span.start_s) * 1e3) if until_s > span.start_s else None


def _write_name(axes: Axes, span: Span, middle: float, drawn_s: float) -> None:
    """In the bar, in full or its last part, where it fits."""
    room = (span.end_s - span.start_s) / drawn_s * _LETTERS
    name = next((name for name in (span.task, span.task.rpartition("/")[2]) if len(name) < room), "")
    if name:
        axes.text((span.start_s + span.end_s) / 2 * 1e3, middle, name, fontsize=6, ha="center", va="center")


def _bar(span: Span) -> tuple[float, float]:
    return span.start_s * 1e3, (span.end_s - span.start_s) * 1e3
