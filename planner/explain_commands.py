"""The verbs that say why: `explain` and `diff`."""

from __future__ import annotations

import argparse

from rich.console import Console

from gnnplan.planner.explain.diff import diff_plans
from gnnplan.planner.explain.explain import explain_plan
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.report.difference import difference_table
from gnnplan.planner.report.explanation import explanation_tables
from gnnplan.planner.report.output import print_result
from gnnplan.planner.sound_plan import load_plan


def explain(arguments: argparse.Namespace) -> None:
    """`gnnplan explain`."""
    plan = load_plan(arguments.plan)
    with Console(stderr=True).status("reading the plan") as status:
        graph = load_graph(plan.job.graph) if arguments.search else None
        explanation = explain_plan(plan, graph=graph, on_step=status.update)
    print_result(arguments, explanation.model_dump(mode="json"), explanation_tables(explanation))


def diff(arguments: argparse.Namespace) -> None:
    """`gnnplan diff`."""
    with Console(stderr=True).status("reading the plans") as status:
        difference = diff_plans(arguments.one, arguments.other, on_step=status.update)
    print_result(arguments, difference.model_dump(mode="json"), difference_table(difference))
