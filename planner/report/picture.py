"""One picture of an epoch: predicted above measured, worker by worker."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.contract import replacing

_COLORS = {"compute": "#4477aa", "communicate": "#ee6677", "host": "#ccbb44"}


def write_picture(path: Path, predicted: Trace, measured: Trace) -> Path:
    """A PNG with one row per worker and side; of the measured epochs the one nearest the median is drawn."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    rows = [
        (name, trace, worker)
        for worker in range(predicted.num_workers)
        for name, trace in (("predicted", predicted), ("measured", measured))
    ]
    figure, axes = plt.subplots(figsize=(11, 1.2 + 0.55 * len(rows)), layout="constrained")
    for height, (_, trace, worker) in enumerate(rows):
        epoch = median_epoch(trace)
        for category, color in _COLORS.items():
            bars = [
                _bar(span)
                for span in trace.spans
                if span.worker == worker and span.epoch == epoch and span.category == category
            ]
            axes.broken_barh(bars, (height - 0.4, 0.8), facecolors=color, edgecolor="white", linewidth=0.3)
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
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
    plt.close(figure)
    return path


def median_epoch(trace: Trace) -> int:
    """The traced epoch whose length is nearest the median of the traced ones."""
    lengths: dict[int, float] = {}
    for span in trace.spans:
        lengths[span.epoch] = max(lengths.get(span.epoch, 0.0), span.end_s)
    middle = float(np.median(list(lengths.values())))
    return min(lengths, key=lambda epoch: abs(lengths[epoch] - middle))


def _bar(span: Span) -> tuple[float, float]:
    return span.start_s * 1e3, (span.end_s - span.start_s) * 1e3
