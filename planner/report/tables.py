"""Plans, traces and comparisons as rich tables."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnnplan.planner.compare import Comparison, Figure, TaskFigure
from gnnplan.planner.plan import Plan, Prediction, WorkerLoad
from gnnplan.planner.report.units import seconds, size
from gnnplan.planner.session import changes_since_profiled
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.trace import Trace
from gnnplan.profiles.machine import CollectiveTable, MachineProfile
from gnnplan.profiles.steal import TOLERATED_SHARE

_NUM_TASKS_SHOWN = 8


def profile_table(profile: MachineProfile) -> RenderableType:
    """A profile's largest shapes, with spread and provenance."""
    title = (
        f"{profile.name}: {profile.device_name}, {profile.num_threads} thread(s) a worker, "
        f"{profile.num_workers_beside} side by side"
    )
    table = Table(title=title, title_justify="left")
    for column, justify in (
        ("operator", "left"),
        ("largest shape", "left"),
        ("median", "right"),
        ("spread", "right"),
        ("points", "right"),
        ("from", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    tables = dict(profile.operators)
    tables |= {_collective_words(entry, profile): entry.table for entry in profile.collectives}
    for name, operator in tables.items():
        point = operator.points[-1]
        shape = ", ".join(f"{axis} {value:g}" for axis, value in zip(operator.axes, point.shape))
        spread = f"{100 * point.spread_s / point.median_s:.0f}%" if point.repeats and point.median_s else "-"
        table.add_row(name, shape, seconds(point.median_s), spread, str(len(operator.points)), point.provenance)
    return table


def _collective_words(entry: CollectiveTable, profile: MachineProfile) -> str:
    peer = ""
    if entry.peer is not None:
        is_other = entry.peer < len(profile.members) and profile.members[entry.peer].name != profile.host
        peer = f" with {profile.members[entry.peer].name}" if is_other else " on this host"
    return f"{entry.collective}{peer} x{entry.num_workers} ({entry.backend})"


def calibration_table(profile: MachineProfile) -> RenderableType:
    """What calibration changed of a profile, the largest change first."""
    table = Table(title=f"{profile.name}: {profile.note}", title_justify="left")
    for column in ("operator", "factor", "samples", "error before", "error after"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    # Twice as long and half as long are changes of one size.
    for correction in sorted(profile.corrections, key=lambda c: -abs(log(c.factor))):
        table.add_row(
            correction.operator,
            f"x {correction.factor:.3g}",
            str(correction.num_samples),
            f"{correction.error_before:.1%}",
            f"{correction.error_after:.1%}",
        )
    return table


def plan_table(plan: Plan) -> RenderableType:
    """What was decided, what it is predicted to cost, and what else was considered."""
    prediction = plan.prediction
    facts = plan.graph
    head = Table.grid(padding=(0, 2))
    head.add_row(
        "graph",
        f"{facts.name}: {facts.num_nodes:,} vertices, {facts.num_edges:,} edges, "
        f"{facts.num_features:,} features, {facts.num_classes} classes",
    )
    model = plan.job.model
    head.add_row("model", f"{model.kind}, {model.num_layers} layers, hidden {model.hidden_channels}")
    for row in _technique_rows(plan):
        head.add_row(*row)
    head.add_row(
        "epoch",
        f"{seconds(prediction.epoch_s)} predicted: compute {seconds(prediction.compute_s)}, "
        f"communication {seconds(prediction.communicate_s)}, host {seconds(prediction.host_s)}",
    )
    if prediction.weather is not None:
        head.add_row("weather", _weather_words(plan))
    for row in _bound_rows(prediction):
        head.add_row(*row)
    if prediction.unprofiled:
        shown = ", ".join(prediction.unprofiled[:4]) + (" ..." if len(prediction.unprofiled) > 4 else "")
        head.add_row("unprofiled", f"{len(prediction.unprofiled)} task(s) outside the profiled shapes: {shown}")
    if changes := changes_since_profiled(plan.placement):
        head.add_row("changed", f"{'; '.join(changes)}: figures of these are guesses")
    return Group(head, _workers_table(plan), _considered_table(plan))


def _bound_rows(prediction: Prediction) -> Iterator[tuple[str, str]]:
    """How far the plan is from what cannot be beaten, and what binds."""
    every, own = prediction.bound_resource, prediction.schedule_bound_resource
    yield "bounds", f"of any plan here: {seconds(prediction.bound_s)} by {every}; gap {prediction.gap:.0%}"
    yield "", f"of this plan's work: {seconds(prediction.schedule_bound_s)} by {own}; gap {prediction.schedule_gap:.0%}"


def _technique_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a plan does, a sentence a technique."""
    yield "plan", f"{plan.num_workers} worker(s), fidelity {plan.fidelity}"
    for number, chosen in enumerate(plan.choices):
        yield "" if number else "techniques", technique(chosen.technique).words(chosen.choice().decision)
    if layouts := plan.region_layouts():
        yield "regions", ", ".join(f"{host} {size(layout.num_bytes)}" for host, layout in layouts.items())


def _weather_words(plan: Plan) -> str:
    weather = plan.prediction.weather
    assert weather is not None
    return (
        f"mean epoch {seconds(weather.mean_epoch_s)}, one in twenty above {seconds(weather.p95_epoch_s)}; "
        f"{seconds(max(weather.delay_s, 0.0))} of the mean are delay, {weather.mean_members:.2g} workers a step"
    )


def _workers_table(plan: Plan) -> Table:
    table = Table()
    for column in ("worker", "host", "vertices", "edges", "halo", "peak memory", "of", "sent an epoch"):
        table.add_column(column, justify="left" if column == "host" else "right")
    for rank, (place, share, load) in enumerate(zip(plan.placement.workers, plan.shares(), plan.prediction.workers)):
        table.add_row(
            str(rank),
            place.host,
            *(f"{count:,}" for count in share),
            size(load.peak_bytes),
            size(load.capacity_bytes),
            size(_sent_bytes(load, plan.refresh_interval)),
        )
    return table


def _sent_bytes(load: WorkerLoad, refresh_interval: int) -> float:
    """Bytes sent in an epoch, mean over a refresh interval."""
    return (load.sent_bytes + (refresh_interval - 1) * load.reuse_sent_bytes) / refresh_interval


def _considered_table(plan: Plan) -> Table:
    table = Table(title="considered", title_justify="left")
    table.add_column("decision")
    table.add_column("epoch", justify="right")
    table.add_column("fits")
    for candidate in plan.considered:
        table.add_row(candidate.summary, seconds(candidate.epoch_s), "yes" if candidate.fits else "no")
    return table


def trace_table(trace: Trace) -> RenderableType:
    """The tasks of a trace by their share of the epoch."""
    table = Table(title=f"{trace.origin} epoch {seconds(trace.median_epoch_s)}", title_justify="left")
    table.add_column("category")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for category in ("compute", "communicate", "host"):
        value = trace.category_s(category)
        table.add_row(category, seconds(value), f"{value / trace.median_epoch_s:.0%}")
    return table


def comparison_table(comparison: Comparison) -> RenderableType:
    """Predicted against measured, the tasks that miss most, and the accuracy reached."""
    table = Table(title="predicted against measured", title_justify="left")
    for column in ("", "predicted", "measured", "error"):
        table.add_column(column, justify="right" if column else "left")
    for figure in comparison.figures:
        table.add_row(figure.name, _shown(figure.predicted, figure), _shown(figure.measured, figure), _error(figure))
    for split, value in comparison.accuracy.items():
        table.add_row(f"{split} accuracy", "", f"{value:.2%}", "")
    stolen = ""
    if comparison.stolen_share > TOLERATED_SHARE:
        stolen = f"; {comparison.stolen_share:.0%} of the processor time went to other virtual machines: run it again"
    spread = f"the measured epochs spread by {comparison.epoch_spread:.1%} (interquartile range)"
    went_on = ""
    if comparison.went_on_share:
        share = f"{comparison.went_on_share:.0%}"
        went_on = f"; {share} of the steps went on without some worker, which the prediction never does"
    noise = Text(spread + went_on + stolen, style="yellow" if stolen else "dim")
    return Group(table, noise, _miss_table(comparison))


def _shown(value: float, figure: Figure) -> str:
    return seconds(value) if figure.unit == "s" else size(value)


def _error(figure: Figure) -> str:
    return "" if figure.error is None else f"{figure.error:+.1%}"


_WHY = {
    "unprofiled": "shape outside the profile",
    "variance": "varies as much from epoch to epoch",
    "contention": "all of the worker is slower than profiled",
    "operator": "the operator itself",
}


def _miss_table(comparison: Comparison) -> Table:
    table = Table(title="tasks that miss most (mean over workers)", title_justify="left")
    for column in ("task", "predicted", "measured", "why"):
        table.add_column(column, justify="right" if column in ("predicted", "measured") else "left")
    for task in comparison.tasks[:_NUM_TASKS_SHOWN]:
        table.add_row(task.task, seconds(task.predicted_s), seconds(task.measured_s), _why(task))
    return table


def _why(task: TaskFigure) -> str:
    if task.cause == "waiting":
        return f"waited for worker {task.worker}"
    if task.cause == "less_waiting":
        return f"waited less for worker {task.worker} than predicted"
    return _WHY[task.cause]
