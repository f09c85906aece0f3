"""Plans, traces and comparisons as rich tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnnplan.planner.compare import Comparison, Figure, TaskFigure
from gnnplan.planner.interval.ranking import are_apart_here
from gnnplan.planner.metrics import METRICS
from gnnplan.planner.money import cost_of
from gnnplan.planner.objective.spec import ObjectiveFigures
from gnnplan.planner.plan import Candidate, Plan, Searched
from gnnplan.planner.prediction import Prediction, WorkerLoad
from gnnplan.planner.report.disturbance import profile_was_disturbed, run_was_disturbed
from gnnplan.planner.report.layout import new_table
from gnnplan.planner.report.mini_batch import batches_table
from gnnplan.planner.report.units import dollars, seconds, size
from gnnplan.planner.session import changes_since_profiled
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.trace import Trace
from gnnplan.profiles.machine import CollectiveTable, MachineProfile

_NUM_TASKS_SHOWN = 8
_BAR_CELLS = 20
_ENDED = {"time": "the search ended at its time", "gap": "the search ended near enough to its bound"}


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


def objective_words(figures: ObjectiveFigures) -> str:
    """What the plan was chosen for, what it comes to, and what no other can beat."""
    what = {"epoch": "seconds an epoch", "time": "seconds", "money": "dollars"}[figures.minimize]
    limits = [
        f"deadline {seconds(figures.deadline_s)}" if figures.deadline_s else "",
        f"budget {dollars(figures.budget)} dollars" if figures.budget else "",
    ]
    kept = "".join(f", {limit} kept" for limit in limits if limit)
    least = f"{dollars(figures.least)} dollars" if figures.minimize == "money" else seconds(figures.least)
    price = f" and {dollars(figures.dollars)} dollars" if figures.dollars else ""
    return (
        f"least {what} by {figures.statistic}: {figures.epochs:,} epochs in {seconds(figures.seconds)}{price}{kept}; "
        f"none here below {least}, gap {figures.gap:.0%}"
    )


def interval_words(prediction: Prediction) -> str:
    """Where the median epoch of a run is expected."""
    interval = prediction.interval
    if interval is None:
        return ""
    return f" ({interval.level:.0%}: {seconds(interval.low_s)} to {seconds(interval.high_s)})"


def fluctuation_words(prediction: Prediction) -> str:
    """How far epochs are expected to vary."""
    fluctuating = prediction.fluctuating
    if fluctuating is None or fluctuating.p95_s <= prediction.epoch_s:
        return ""
    return f"half of all epochs are within that, 95% within {seconds(fluctuating.p95_s)}"


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


def bound_words(plan: Plan) -> Iterator[str]:
    """Of any plan, of what was searched, and of the plan's own work; the weakest claim has the largest bound."""
    prediction, searched = plan.prediction, plan.searched
    yield f"of any plan here: {seconds(prediction.bound_s)} by {prediction.bound_resource}; gap {prediction.gap:.0%}"
    if searched is not None:
        gap = "" if plan.search_gap is None else f"; gap {plan.search_gap:.0%}"
        yield f"of what was searched: {seconds(searched.bound_s)} by {searched.bound_resource}{gap}"
    own_s, own = prediction.schedule_bound_s, prediction.schedule_bound_resource
    yield f"of this plan's work: {seconds(own_s)} by {own}; gap {prediction.schedule_gap:.0%}"
    if searched is not None:
        yield searched_words(searched)


def searched_words(searched: Searched) -> str:
    """How much was looked at, and why the rest was not."""
    num_looked_at = searched.num_sets - searched.num_passed_over - searched.num_left
    sets = f"{num_looked_at:,} of {searched.num_sets:,} sets of workers"
    words = f"searched: {searched.num_candidates:,} candidates on {sets}"
    others = f"the {searched.num_passed_over:,} passed over" if searched.num_left else "the others"
    words += f"; no plan of {others} can be better" if searched.num_passed_over else ""
    return f"{words}; {_ENDED[searched.ended_by]}{_left(searched.num_left)}" if searched.ended_by else words


def _left(num_sets: int) -> str:
    return f", with {num_sets:,} set(s) of workers left" if num_sets else ""


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
        sent = size(_sent_bytes(load, plan.refresh_interval))
        table.add_row(str(rank), place.host, *(f"{count:,}" for count in share), sent)
    return table


def _memory_table(plan: Plan) -> Table:
    table = new_table("", "worker", "peak memory", "of", "used", "")
    for rank, load in enumerate(plan.prediction.workers):
        used = load.peak_bytes / load.capacity_bytes if load.capacity_bytes else 0.0
        table.add_row(str(rank), size(load.peak_bytes), size(load.capacity_bytes), f"{used:.0%}", _bar(used))
    return table


def _bar(share: float) -> str:
    filled = min(max(round(share * _BAR_CELLS), 1), _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _sent_bytes(load: WorkerLoad, refresh_interval: int) -> float:
    """Bytes sent in an epoch, mean over a refresh interval."""
    return (load.sent_bytes + (refresh_interval - 1) * load.reuse_sent_bytes) / refresh_interval


def _considered_table(plan: Plan) -> Table:
    columns = "decision", "epoch", "fits", "slower"
    of = "tasks at their median" if plan.prediction.mean_epoch_s is None else "the mean of a long run"
    table = new_table(f"considered ({of})", *columns, words=("decision",))
    for candidate in plan.considered:
        fits = "yes" if candidate.fits else "no"
        table.add_row(candidate.summary, seconds(candidate.epoch_s), fits, slower_words(candidate, plan.prediction))
    return table


def slower_words(candidate: Candidate, chosen: Prediction) -> str:
    """Whether a candidate is slower than the plan when it runs, as far as predictions can tell."""
    chosen_s = chosen.long_run_epoch_s
    if candidate.epoch_s == chosen_s:
        return "-"  # the plan itself, as a rule
    if not are_apart_here(candidate.epoch_s, chosen_s, chosen.interval):
        return "cannot tell"
    return "yes" if candidate.epoch_s > chosen_s else "no"


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
        table.add_row(figure.name, _shown(figure.predicted, figure), _shown(figure.measured, figure), _error(figure))
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
    title = "tasks that miss most (mean over workers)"
    table = new_table(title, "task", "predicted", "measured", "why", words=("task", "why"))
    for task in comparison.tasks[:_NUM_TASKS_SHOWN]:
        table.add_row(task.task, seconds(task.predicted_s), seconds(task.measured_s), why_missed(task))
    return table


def why_missed(task: TaskFigure) -> str:
    """What the two traces tell of a task's miss."""
    if task.cause == "waiting":
        return f"waited for worker {task.worker}"
    if task.cause == "less_waiting":
        return f"waited less for worker {task.worker} than predicted"
    return _WHY[task.cause]
