"""What notebooks show of what the verbs return: the tables of the command line as HTML."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from gnnplan.planner.compare import Comparison
from gnnplan.planner.explain.difference import Difference
from gnnplan.planner.explain.explanation import Explanation
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.difference import difference_table
from gnnplan.planner.report.explanation import explanation_tables
from gnnplan.planner.report.statistics import statistics_table
from gnnplan.planner.report.sweep import sweep_tables
from gnnplan.planner.report.tables import comparison_table, plan_table, profile_table, trace_table
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.sweep.result import SweepResult
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import show_as_html
from gnnplan.profiles.machine import MachineProfile

_FORMAT = '<pre style="line-height:1.25;font-family:monospace">{code}</pre>'


def as_html(table: RenderableType) -> str:
    """A table as HTML that brings its own style."""
    console = Console(record=True, width=100, file=io.StringIO(), force_jupyter=False)
    console.print(table)
    return console.export_html(inline_styles=True, code_format=_FORMAT)


def register() -> None:
    """From now on notebooks show these."""
    show_as_html(Plan, lambda plan: as_html(plan_table(plan)))
    show_as_html(Comparison, lambda comparison: as_html(comparison_table(comparison)))
    show_as_html(Trace, lambda trace: as_html(trace_table(trace)))
    show_as_html(MachineProfile, lambda profile: as_html(profile_table(profile)))
    show_as_html(Explanation, lambda explanation: as_html(explanation_tables(explanation)))
    show_as_html(Difference, lambda difference: as_html(difference_table(difference)))
    show_as_html(Statistics, lambda statistics: as_html(statistics_table(statistics)))
    show_as_html(SweepResult, lambda result: as_html(sweep_tables(result)))
