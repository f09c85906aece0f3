"""What cannot be beaten, what is predicted and what was measured, on one scale."""

from __future__ import annotations

from gnnplan.planner.plan import Plan
from gnnplan.planner.prediction import Prediction
from gnnplan.planner.report.html.element import Html, element, section, strip
from gnnplan.planner.report.units import seconds
from gnnplan.planner.report.words import searched_words
from gnnplan.planner.trace import Trace

_TALL = 16
_NUM_TICKS = 4


def certificate(plan: Plan, measured: Trace | None) -> Html:
    """Bounds, prediction with its interval, and measurement."""
    prediction = plan.prediction
    rows = _rows(plan, measured)
    whole_s = 1.05 * max(high_s for _, _, _, high_s, _ in rows)
    ticks = (element("span", seconds(whole_s * tick / _NUM_TICKS)) for tick in range(_NUM_TICKS + 1))
    strips = [piece for row in rows for piece in _strip(row, whole_s)]
    words = [
        *_median_words(prediction),
        f"No plan of any workers here has an epoch below {seconds(prediction.bound_s)}, set by "
        f"{prediction.bound_resource}: this plan is {prediction.gap:.0%} above.",
        *_searched_words(plan),
        f"No order of this plan's own work is below {seconds(prediction.schedule_bound_s)}, set by "
        f"{prediction.schedule_bound_resource}: the plan is {prediction.schedule_gap:.0%} above.",
        *_interval_words(prediction),
    ]
    return section(
        "How good, and how sure",
        element("div", *strips, element("span"), element("div", *ticks, class_="axis"), class_="lanes"),
        *(element("p", each) for each in words),
    )


_Row = tuple[str, float, float, float, str]


def _searched_words(plan: Plan) -> list[str]:
    if plan.searched is None or plan.search_gap is None:
        return []
    return [
        f"No plan made of what was searched is below {seconds(plan.searched.bound_s)}, set by "
        f"{plan.searched.bound_resource}: this plan is {plan.search_gap:.0%} above ({searched_words(plan.searched)}).",
    ]


def _rows(plan: Plan, measured: Trace | None) -> list[_Row]:
    """Name, least, middle and most seconds, and a class."""
    prediction, searched_s = plan.prediction, plan.searched.bound_s if plan.searched else 0.0
    bound_s, own_s, middle_s = prediction.bound_s, prediction.schedule_bound_s, prediction.expected_epoch_s
    interval = prediction.interval
    low_s, high_s = (interval.low_s, interval.high_s) if interval else (middle_s, middle_s)
    rows: list[_Row] = [
        ("any plan", 0.0, bound_s, bound_s, "bound"),
        *([("searched", 0.0, searched_s, searched_s, "bound")] if searched_s else []),
        ("this work", 0.0, own_s, own_s, "bound"),
        ("predicted", low_s, middle_s, high_s, "range"),
    ]
    if measured:
        low_s, high_s = measured.epoch_range_s
        rows.append(("measured", low_s, measured.median_epoch_s, high_s, "range"))
    return rows


def _strip(row: _Row, whole_s: float) -> list[Html]:
    name, low_s, middle_s, high_s, what = row
    begin, middle, end = (1000 * value_s / whole_s for value_s in (low_s, middle_s, high_s))
    marks = [
        element("rect", x=f"{begin:.1f}", y=3, width=f"{max(end - begin, 2):.1f}", height=_TALL - 6, class_=what),
        element("rect", x=f"{middle - 1.5:.1f}", y=0, width=3, height=_TALL, class_="mark"),
    ]
    around = "" if low_s in (0.0, middle_s) else f", {seconds(low_s)} to {seconds(high_s)}"
    return [element("span", name), strip(marks, f"{name}: {seconds(middle_s)}{around}", _TALL)]


def _median_words(prediction: Prediction) -> list[str]:
    expected, steady = seconds(prediction.expected_epoch_s), seconds(prediction.epoch_s)
    if expected == steady:
        return []
    return [
        f"Tasks vary from epoch to epoch, and workers wait for whoever is slow: {expected} are expected. With all "
        f"tasks at their median an epoch is {steady}. Shares and tables below are of that one."
    ]


def _interval_words(prediction: Prediction) -> list[str]:
    interval = prediction.interval
    if interval is None:
        return ["There is no interval: none is known for mini-batches."]
    words = [
        f"The median epoch of a run is expected within {seconds(interval.low_s)} to {seconds(interval.high_s)}, "
        f"{interval.level:.0%} of the time ({interval.residuals} machines)."
    ]
    if interval.guessed_share:
        words.append(
            f"{interval.guessed_share:.0%} of the tasks' seconds are guesses: shapes or figures that nobody measured."
        )
    return words
