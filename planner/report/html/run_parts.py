"""A run beside its prediction."""

from __future__ import annotations

from gnnplan.planner.compare import Comparison
from gnnplan.planner.metrics import METRICS
from gnnplan.planner.report.disturbance import run_was_disturbed
from gnnplan.planner.report.html.element import Html, element, section, table
from gnnplan.planner.report.units import seconds
from gnnplan.planner.report.words import error_words, shown, why_missed

_MOST_FIGURES, _MOST_TASKS = 24, 12


def comparison(compared: Comparison) -> Html:
    """Figures of both sides, and the tasks that miss most."""
    figures = [(f.name, shown(f.predicted, f), shown(f.measured, f), error_words(f)) for f in compared.figures]
    metric = METRICS[compared.metric]
    reached = [(f"{split} {metric.words}", "", metric.shown(value), "") for split, value in compared.accuracy.items()]
    tasks = [
        (task.task, seconds(task.predicted_s), seconds(task.measured_s), why_missed(task))
        for task in compared.tasks[:_MOST_TASKS]
    ]
    columns = ("", "predicted", "measured", "error")
    warnings = (element("p", words, class_="warn") for words in _warnings(compared))
    return section(
        "Predicted against measured",
        *warnings,
        table(columns, [*figures[:_MOST_FIGURES], *reached], numbers=(1, 2, 3), is_narrow=True),
        element("h3", "Tasks that miss most"),
        table(("task", "predicted", "measured", "why"), tasks, numbers=(1, 2)),
    )


def _warnings(compared: Comparison) -> list[str]:
    return [*run_was_disturbed(compared.others_share, compared.stolen_share), *compared.notes]
