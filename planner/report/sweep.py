"""What a sweep found, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gnnplan.planner.report.layout import new_table
from gnnplan.planner.report.units import dollars, seconds, size
from gnnplan.planner.sweep.result import Least, Point, SweepResult

SHOWN = 15  # points of a model; all of them stand in sweep.json
_COLUMNS = ("machine", "workers", "epoch", "job", "dollars", "kWh", "memory left", "binds", "layout")


def sweep_tables(result: SweepResult) -> RenderableType:
    """For each model setting its points, the fastest first, and the machines that one asks for first."""
    parts: list[RenderableType] = []
    for least in result.least:
        points = [point for point in result.points if point.model == least.model]
        parts += [_table(least.model, points, result), *_words(least)]
    off = [f"{p.model} on {p.machine}: {_off(p):+.0%}" for p in result.points if p.checked_epoch_s]
    if off:
        parts.append(Text(f"against plans searched on the graph: {'; '.join(off)}", style="dim"))
    parts.append(Text(f"{result.halos}; {result.points_per_minute:,.0f} points a minute", style="dim"))
    return Group(*parts)


def _off(point: Point) -> float:
    assert point.checked_epoch_s
    return point.epoch_s / point.checked_epoch_s - 1


def _table(model: str, points: Sequence[Point], result: SweepResult) -> RenderableType:
    order = sorted(points, key=lambda p: (not p.fits, not p.is_on_front and len(points) > SHOWN, p.epoch_s))
    cut = f", {SHOWN} of {len(points):,}" if len(points) > SHOWN else ""
    table = new_table(
        f"{model} on {result.graph}, {result.epochs:,} epochs; * = on the Pareto front{cut}",
        *_COLUMNS,
        words=("machine", "binds", "layout"),
    )
    for point in order[:SHOWN]:
        table.add_row(*_row(point))
    return table


def _row(point: Point) -> list[str]:
    name = f"{'* ' if point.is_on_front else ''}{point.machine}"
    if not point.fits:
        return [name, str(point.num_workers), "-", "-", "-", "-", f"{point.headroom:.0%}", "memory", ""]
    hours = f"{point.job_s / 3600:.3g} h" if point.job_s >= 3600 else seconds(point.job_s)
    price = "-" if point.dollars is None else dollars(point.dollars)
    energy = "-" if point.kilowatt_hours is None else f"{point.kilowatt_hours:.3g}"
    left, layout = f"{point.headroom:.0%}", point.techniques[0].replace("_", " ") if point.num_workers > 1 else "-"
    return [name, str(point.num_workers), seconds(point.epoch_s), hours, price, energy, left, point.binds, layout]


def _words(least: Least) -> list[Text]:
    if least.fastest is None:
        missing = size(least.missing_bytes)
        return [
            Text(f"no machine fits; the nearest is {least.nearest}, {missing} a device are missing", style="yellow")
        ]
    words = [f"smallest that fits: {least.smallest}", f"fastest: {least.fastest}"]
    if least.cheapest:
        words.insert(1, f"cheapest for the job: {least.cheapest}")
    return [Text("; ".join(words))]
