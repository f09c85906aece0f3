"""From a plan's file, or a run's folder, to its report."""

from __future__ import annotations

from pathlib import Path

from gnnplan.planner.plan import Plan
from gnnplan.planner.report.html.page import plan_page, write_page
from gnnplan.planner.run_files import MEASURED_FILE, PLAN_FILE
from gnnplan.planner.search import simulate_plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.search.predict import NUM_REPLICAS
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import check_writable


def write_report(source: Plan | Path, output: Path, *, on_step: OnStep = lambda _: None) -> Path:
    """Writes the report of a plan, or of a run over its plan, as one HTML file.

    Args:
        source: a plan or its file, or the folder of a run with its plan and its measured trace.
        on_step: told in words what is done.

    Raises `UserError` where a file is missing, damaged, or of another plan.
    """
    check_writable(output)
    measured = None
    if isinstance(source, Plan):
        plan = source
    elif source.is_dir():
        plan, measured = load_plan(source / PLAN_FILE), Trace.load(source / MEASURED_FILE)
    else:
        plan = load_plan(source)
    on_step("simulating the plan")
    predicted = simulate_plan(plan, NUM_REPLICAS)
    return write_page(output, plan_page(plan, predicted, measured, on_step))
