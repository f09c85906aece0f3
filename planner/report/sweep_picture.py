"""A sweep as a picture: seconds of an epoch against what the job costs, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnnplan.planner.sweep.result import Point, SweepResult
from gnnplan.profiles.contract import replacing

_MOST_MODELS = 12  # panels; all models stand in sweep.json
_COLUMNS = 3
_NAMED = 6  # points of a front that have their names beside them


def write_sweep_picture(path: Path, result: SweepResult) -> Path:
    """A PNG with a panel for each model setting; points that do not fit are left out."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = [least.model for least in result.least][:_MOST_MODELS]
    columns = min(_COLUMNS, len(models))
    rows = -(-len(models) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(5.2 * columns, 4.2 * rows), layout="constrained", squeeze=False
    )
    devices = list(dict.fromkeys(point.device for point in result.points))
    for axes, model in zip(panels.flat, models, strict=False):
        _draw(axes, model, [point for point in result.points if point.model == model and point.fits], devices)
    for axes in list(panels.flat)[len(models) :]:
        axes.set_visible(False)
    figure.suptitle(f"{result.graph}: predicted from statistics, {result.epochs:,} epochs")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    plt.close(figure)
    return path


def _draw(axes, model: str, points: Sequence[Point], devices: Sequence[str]) -> None:
    axes.set_title(model)
    axes.spines[["top", "right"]].set_visible(False)
    if not points:
        axes.text(0.5, 0.5, "no machine fits", ha="center", transform=axes.transAxes)
        return
    has_prices = all(point.dollars is not None for point in points)
    for number, device in enumerate(devices):
        if of_device := [point for point in points if point.device == device]:
            at = [p.epoch_s for p in of_device], [_cost(p, has_prices) for p in of_device]
            axes.scatter(*at, s=14, color=f"C{number % 10}", label=device)
    front = sorted((p for p in points if p.is_on_front), key=lambda p: p.epoch_s)
    axes.plot([p.epoch_s for p in front], [_cost(p, has_prices) for p in front], color="black", lw=1, zorder=0)
    for point in front[:: max(1, -(-len(front) // _NAMED))]:
        place = (point.epoch_s, _cost(point, has_prices))
        axes.annotate(point.machine, place, fontsize=7, rotation=40, xytext=(2, 4), textcoords="offset points")
    axes.set_xscale("log")
    is_free = any(_cost(point, has_prices) == 0 for point in points)
    axes.set_yscale("linear" if is_free else "log")
    axes.set_xlabel("seconds an epoch")
    axes.set_ylabel("dollars for the job" if has_prices else "devices")
    axes.legend(fontsize=7)


def _cost(point: Point, has_prices: bool) -> float:
    return (point.dollars or 0.0) if has_prices else float(point.num_workers)
