"""What tables and pages say of a plan, a search and a comparison, in the same words."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.compare import Figure, TaskFigure
from gnnplan.planner.interval.ranking import are_apart_here
from gnnplan.planner.objective.spec import ObjectiveFigures
from gnnplan.planner.plan import Candidate, Plan, Searched
from gnnplan.planner.prediction import Prediction
from gnnplan.planner.report.units import dollars, seconds, size

_ENDED = {"time": "the search ended at its time", "gap": "the search ended near enough to its bound"}
_WHY = {
    "unprofiled": "shape outside the profile",
    "variance": "varies as much from epoch to epoch",
    "contention": "all of the worker is slower than profiled",
    "operator": "the operator itself",
}


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


def slower_words(candidate: Candidate, chosen: Prediction) -> str:
    """Whether a candidate is slower than the plan when it runs, as far as predictions can tell."""
    chosen_s = chosen.long_run_epoch_s
    if candidate.epoch_s == chosen_s:
        return "-"  # the plan itself, as a rule
    if not are_apart_here(candidate.epoch_s, chosen_s, chosen.interval):
        return "cannot tell"
    return "yes" if candidate.epoch_s > chosen_s else "no"


def shown(value: float, figure: Figure) -> str:
    """A value of a figure with the figure's unit."""
    return seconds(value) if figure.unit == "s" else size(value)


def error_words(figure: Figure) -> str:
    """How far the prediction is off, with its sign; nothing where that cannot be said."""
    return "" if figure.error is None else f"{figure.error:+.1%}"


def why_missed(task: TaskFigure) -> str:
    """What the two traces tell of a task's miss."""
    if task.cause == "waiting":
        return f"waited for worker {task.worker}"
    if task.cause == "less_waiting":
        return f"waited less for worker {task.worker} than predicted"
    return _WHY[task.cause]
