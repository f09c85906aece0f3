"""Plans, traces and comparisons as rich tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnnplan.planner.compare import Comparison
from gnnplan.planner.metrics import METRICS
from gnnplan.planner.money import cost_of
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.disturbance import profile_was_disturbed, run_was_disturbed
from gnnplan.planner.report.layout import new_table
from gnnplan.planner.report.mini_batch import batches_table
from gnnplan.planner.report.units import dollars, seconds, size
from gnnplan.planner.report.words import (
    bound_words,
    error_words,
    fluctuation_words,
    interval_words,
    objective_words,
    shown,
    slower_words,
    why_missed,
)
from gnnplan.planner.session import changes_since_profiled
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.trace import Trace
from gnnplan.profiles.machine import CollectiveTable, MachineProfile

_NUM_TASKS_SHOWN = 8
_BAR_CELLS = 20


def profile_table(profile: MachineProfile) -> RenderableType:
    """A profile's largest shapes, with spread and provenance."""
    title = (
        f"{profile.name}: {profile.device_name}, {profile.num_threads} thread(s) a worker, "
        f"{profile.num_workers_beside} side by side"
    )
    table = new_table(
        title,
        "operator",
        "largest shape",
        "median",
        "spread",
        "points",
        "from",
        words=("operator", "largest shape", "from"),
    )
    tables = dict(profile.operators)
    tables |= {_collective_words(entry, profile): entry.table for entry in profile.collectives}
    for name, operator in tables.items():
        point = operator.points[-1]
        shape = ", ".join(f"{axis} {value:g}" for axis, value in zip(operator.axes, point.shape))
        spread = f"{100 * point.spread_s / point.median_s:.0f}%" if point.repeats and point.median_s else "-"
        table.add_row(name, shape, seconds(point.median_s), spread, str(len(operator.points)), point.provenance)
    return Group(table, *_warnings(profile_was_disturbed(profile)))


def _warnings(said: Iterable[str]) -> list[Text]:
    return [Text(words, style="yellow") for words in said]


def _collective_words(entry: CollectiveTable, profile: MachineProfile) -> str:
    peer = ""
    if entry.peer is not None:
        is_other = entry.peer < len(profile.members) and profile.members[entry.peer].name != profile.host
        peer = f" with {profile.members[entry.peer].name}" if is_other else " on this host"
    return f"{entry.collective}{peer} x{entry.num_workers} ({entry.backend})"


def calibration_table(profile: MachineProfile) -> RenderableType:
    """What calibration changed of a profile, the largest change first."""
    table = new_table(
        f"{profile.name}: {profile.note}",
        *("operator", "factor", "samples", "error before", "error after"),
        words=("operator",),
    )
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
        f"{facts.num_features:,} features, {facts.task_words}",
    )
    head.add_row("model", plan.job.model_words)
    for row in _technique_rows(plan):
        head.add_row(*row)
    for row in _epoch_rows(plan):
        head.add_row(*row)
    if prediction.weather is not None:
        head.add_row("weather", _weather_words(plan))
    for row in _bound_rows(plan):
        head.add_row(*row)
    if prediction.unprofiled:
        shown = ", ".join(prediction.unprofiled[:4]) + (" ..." if len(prediction.unprofiled) > 4 else "")
        head.add_row("unprofiled", f"{len(prediction.unprofiled)} task(s) outside the profiled shapes: {shown}")
    if words := _default_link_words(plan):
        head.add_row("device link", words)
    if changes := changes_since_profiled(plan.placement):
        head.add_row("changed", f"{'; '.join(changes)}: figures of these are guesses")
    disturbed = [words for profile in plan.placement.profiles.values() for words in profile_was_disturbed(profile)]
    workers = _workers_table(plan) if plan.mini_batch is None else batches_table(plan, plan.mini_batch)
    return Group(head, *_warnings(disturbed), workers, _memory_table(plan), _considered_table(plan))


def _epoch_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """What an epoch takes, the same figure as `simulate` and `compare` show, and what the job comes to."""
    prediction = plan.prediction
    yield "epoch", f"{seconds(prediction.expected_epoch_s)} predicted{interval_words(prediction)}"
    if words := fluctuation_words(prediction):
        yield "", words
    yield (
        "",
        f"of tasks at their median: {seconds(prediction.epoch_s)}, of which compute {seconds(prediction.compute_s)}, "
        f"communication {seconds(prediction.communicate_s)}, host {seconds(prediction.host_s)}",
    )
    if prediction.mean_epoch_s is not None:
        yield "", f"of a long run under quotas: {seconds(prediction.mean_epoch_s)} in the mean, which bounds speak of"
    cost = cost_of(plan)
    price = f", {dollars(cost.dollars)} dollars at {plan.placement.price_per_hour:g} an hour" if cost.dollars else ""
    yield "job", f"{plan.job.training.epochs:,} epochs in {seconds(cost.seconds)}{price}"
    if prediction.objective is not None:
        yield "objective", objective_words(prediction.objective)


def fluctuation_note(plan: Plan, trace: Trace, num_replicas: int) -> str:
    """What a predicted trace's replicas say, and where their spread is from."""
    points = [
        point.provenance
        for profile in plan.placement.profiles.values()
        for table in profile.operators.values()
        for point in table.points
    ]
    if "measured" not in points:
        return "the profiles' figures are published or scaled, and have no spread: no task fluctuates"
    assert trace.fluctuating is not None
    source = "as measured" if set(points) == {"measured"} else "as far as they were measured"
    return (
        f"of {num_replicas} epochs whose tasks fluctuate {source}, half are within {seconds(trace.fluctuating.p50_s)} "
        f"and 95% within {seconds(trace.fluctuating.p95_s)}"
    )


def _default_link_words(plan: Plan) -> str:
    """Where rows pass between devices of a host over a link that nobody named or measured."""
    placement = plan.placement
    shares_a_host = len(set(placement.host_of)) < len(placement.workers)
    is_measured = any(profile.collectives for profile in placement.profiles.values())
    if not placement.is_default_link or not shares_a_host or is_measured:
        return ""
    rate = placement.device_link.bytes_per_s / 1e9
    return f"{rate:.3g} GB/s between devices of a host is assumed; name yours as device_link in the cluster file"


def _bound_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """How far the plan is from what cannot be beaten, and what binds."""
    for number, words in enumerate(bound_words(plan)):
        yield "" if number else "bounds", words


def _technique_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a plan does, a sentence a technique."""
    yield "plan", f"{plan.num_workers} worker(s), fidelity {plan.fidelity}"
    for number, chosen in enumerate(plan.choices):
        yield "" if number else "techniques", technique(chosen.technique).words(chosen.choice().decision)
    if layouts := plan.region_layouts():
        yield "regions", ", ".join(f"{host} {size(layout.num_bytes)}" for host, layout in layouts.items())
    if pinned := plan.pinned_bytes():
        yield "host memory", ", ".join(f"{host} {size(num_bytes)}" for host, num_bytes in pinned.items())


def _weather_words(plan: Plan) -> str:
    weather = plan.prediction.weather
    assert weather is not None
    return (
        f"mean epoch {seconds(weather.mean_epoch_s)}, one in twenty above {seconds(weather.p95_epoch_s)}; "
        f"{seconds(max(weather.delay_s, 0.0))} of the mean are delay, {weather.mean_members:.2g} workers a step"
    )


def _workers_table(plan: Plan) -> Table:
    table = new_table("", "worker", "host", "vertices", "edges", "halo", "sent an epoch", words=("host",))
    for rank, (place, share, load) in enumerate(zip(plan.placement.workers, plan.shares(), plan.prediction.workers)):
        sent = size(load.mean_sent_bytes(plan.refresh_interval))
        table.add_row(str(rank), place.host, *(f"{count:,}" for count in share), sent)
    return table


def _memory_table(plan: Plan) -> Table:
    table = new_table("", "worker", "peak memory", "of", "used", "")
    for rank, load in enumerate(plan.prediction.workers):
        used = load.used_share
        table.add_row(str(rank), size(load.peak_bytes), size(load.capacity_bytes), f"{used:.0%}", _bar(used))
    return table


def _bar(share: float) -> str:
    filled = min(max(round(share * _BAR_CELLS), 1), _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _considered_table(plan: Plan) -> Table:
    columns = "decision", "epoch", "fits", "slower"
    of = "tasks at their median" if plan.prediction.mean_epoch_s is None else "the mean of a long run"
    table = new_table(f"considered ({of})", *columns, words=("decision",))
    for candidate in plan.considered:
        fits = "yes" if candidate.fits else "no"
        table.add_row(candidate.summary, seconds(candidate.epoch_s), fits, slower_words(candidate, plan.prediction))
    return table


def trace_table(trace: Trace) -> RenderableType:
    """The tasks of a trace by their share of the epoch; of a measured one what its epochs range over."""
    title = f"{trace.origin} epoch {seconds(trace.expected_epoch_s)}"
    if trace.fluctuating:
        title += f" ({seconds(trace.median_epoch_s)} of tasks at their median, as below)"
    table = new_table(title, "category", "seconds", "share", words=("category",))
    for category in ("compute", "communicate", "host"):
        value = trace.category_s(category)
        table.add_row(category, seconds(value), f"{value / (trace.median_epoch_s or trace.mean_epoch_s):.0%}")
    if trace.origin == "predicted":
        return table
    low, high = trace.epoch_range_s
    words = Text(f"nine in ten epochs took {seconds(low)} to {seconds(high)}", style="dim")
    return Group(table, words, *_warnings(run_was_disturbed(trace.others_share, trace.stolen_share)))


def comparison_table(comparison: Comparison) -> RenderableType:
    """Predicted against measured, the tasks that miss most, and the accuracy reached."""
    table = new_table("predicted against measured", "", "predicted", "measured", "error", words=("",))
    for figure in comparison.figures:
        table.add_row(figure.name, shown(figure.predicted, figure), shown(figure.measured, figure), error_words(figure))
    for split, value in comparison.accuracy.items():
        metric = METRICS[comparison.metric]
        table.add_row(f"{split} {metric.words}", "", metric.shown(value), "")
    spread = f"the measured epochs spread by {comparison.epoch_spread:.1%} (interquartile range)"
    if comparison.epoch_range_s:
        low, high = comparison.epoch_range_s
        spread += f"; nine in ten took {seconds(low)} to {seconds(high)}"
    if comparison.went_on_share:
        share = f"{comparison.went_on_share:.0%}"
        spread += f"; {share} of the steps went on without some worker, which the prediction never does"
    disturbed = _warnings(run_was_disturbed(comparison.others_share, comparison.stolen_share))
    return Group(table, Text(spread, style="dim"), *disturbed, *_warnings(comparison.notes), _miss_table(comparison))


def _miss_table(comparison: Comparison) -> Table:
    title = "tasks that miss most (mean over workers)"
    table = new_table(title, "task", "predicted", "measured", "why", words=("task", "why"))
    for task in comparison.tasks[:_NUM_TASKS_SHOWN]:
        table.add_row(task.task, seconds(task.predicted_s), seconds(task.measured_s), why_missed(task))
    return table
