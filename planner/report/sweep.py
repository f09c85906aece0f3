"""What a sweep found, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gnnplan.planner.report.layout import new_table
from gnnplan.planner.report.units import dollars, seconds, size
from gnnplan.planner.sweep.result import Least, Point, SweepResult

SHOWN = 15  # points of a model; all of them stand in sweep.json


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
    columns = _columns(points)
    title = f"{model} on {result.graph}, {result.epochs:,} epochs; * = on the Pareto front{cut}"
    table = new_table(title, *columns, words=("machine", "layout"))
    for point in order[:SHOWN]:
        table.add_row(*(cell(point) for cell in columns.values()))
    return table


def _columns(points: Sequence[Point]) -> dict[str, Callable[[Point], str]]:
    """What is known of some point at least; a point that does not fit has its bytes alone."""
    columns: dict[str, Callable[[Point], str]] = {"machine": _name, "epoch": _epoch, "job": _job}
    if any(point.dollars is not None for point in points):
        columns["dollars"] = lambda p: "-" if p.dollars is None or not p.fits else dollars(p.dollars)
    if any(point.kilowatt_hours is not None for point in points):
        columns["kWh"] = lambda p: "-" if p.kilowatt_hours is None or not p.fits else f"{p.kilowatt_hours:.3g}"
    columns |= {"memory\nleft": lambda p: f"{p.headroom:.0%}", "binds": lambda p: p.binds, "layout": _layout}
    return columns


def _name(point: Point) -> str:
    return f"{'* ' if point.is_on_front else ''}{point.machine}"


def _epoch(point: Point) -> str:
    return seconds(point.epoch_s) if point.fits else "-"


def _job(point: Point) -> str:
    if not point.fits:
        return "-"
    return f"{point.job_s / 3600:.3g} h" if point.job_s >= 3600 else seconds(point.job_s)


def _layout(point: Point) -> str:
    if point.techniques[0] == "mini_batch":
        return point.techniques[1]
    return point.techniques[0].replace("_", " ") if point.fits and point.num_workers > 1 else "-"


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
