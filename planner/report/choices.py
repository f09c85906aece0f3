"""Clusters side by side: what a job takes, costs and leaves free on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gnnplan.planner.interval.ranking import are_apart
from gnnplan.planner.money import Choice, cost_of, headroom
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.layout import new_table
from gnnplan.planner.report.units import dollars, seconds


def choices_table(choices: Iterable[Choice]) -> RenderableType:
    """The fastest first, or what costs least where the job asks for that; below, why some have no plan."""
    choices = list(choices)
    planned = sorted((each for each in choices if each.plan), key=_value)
    by_money = any(each.plan and each.plan.job.objective.minimize == "money" for each in planned)
    table = new_table(
        f"the job on each cluster, {'cheapest' if by_money else 'fastest'} first",
        *("cluster", "workers", "epoch", "95% within", "job", "dollars", "memory left"),
        words=("cluster",),
    )
    for each in planned:
        assert each.plan is not None
        table.add_row(each.name, *_figures(each.plan))
    notes = [Text(f"{each.name}: {each.reason}", style="yellow") for each in choices if not each.plan]
    return Group(table, *notes, *_near(planned), *_no_price(planned))


def choice_facts(choice: Choice) -> dict[str, Any]:
    """The same figures of one cluster, for scripts."""
    if choice.plan is None:
        return {"cluster": choice.name, "plan": None, "reason": choice.reason}
    cost, prediction = cost_of(choice.plan), choice.plan.prediction
    return {
        "cluster": choice.name,
        "plan": str(choice.plan.file),
        "num_workers": choice.plan.num_workers,
        "epoch_s": prediction.each_of_many_s,
        "epoch_p95_s": prediction.p95_s,
        "job_s": cost.seconds,
        "dollars": cost.dollars,
        "memory_left_share": headroom(choice.plan),
    }


def _value(choice: Choice) -> float:
    """What the job asks to be least."""
    assert choice.plan is not None
    objective = choice.plan.prediction.objective
    if objective is None:
        return choice.plan.prediction.each_of_many_s
    return objective.dollars if objective.minimize == "money" else objective.seconds / objective.epochs


def _figures(plan: Plan) -> list[str]:
    cost, prediction = cost_of(plan), plan.prediction
    slow_s = prediction.each_of_many_s if prediction.p95_s is None else prediction.p95_s
    price = dollars(cost.dollars) if plan.placement.price_per_hour else "-"
    hours = f"{cost.hours:.3g} h" if cost.hours >= 1 else seconds(cost.seconds)
    epoch = seconds(prediction.each_of_many_s)
    return [str(plan.num_workers), epoch, seconds(slow_s), hours, price, f"{headroom(plan):.0%}"]


def _near(planned: Sequence[Choice]) -> list[Text]:
    """Which clusters may be as fast as the fastest, for all that is known of how wrong predictions are."""
    intervals = {each.name: each.plan.prediction.interval for each in planned if each.plan}
    known = {name: interval for name, interval in intervals.items() if interval is not None}
    if not known:
        return []
    fastest = min(known, key=lambda name: known[name].middle_s)
    near = [name for name in known if name != fastest and not are_apart(known[fastest], known[name])]
    words = f"predictions cannot tell whether {fastest} is faster than {', '.join(near)}"
    return [Text(words, style="dim")] if near else []


def _no_price(planned: Iterable[Choice]) -> list[Text]:
    missing = [each.name for each in planned if each.plan and not each.plan.placement.price_per_hour]
    words = f"no price: {', '.join(missing)}; give the hosts price_per_hour in the cluster file"
    return [Text(words, style="dim")] if missing else []
