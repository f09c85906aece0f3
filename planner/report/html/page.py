"""The report of a plan, or of a run of it, as one page."""

from __future__ import annotations

from pathlib import Path

from gnnplan.planner.compare import compare
from gnnplan.planner.explain.explain import explain_plan
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.html import plan_parts, why
from gnnplan.planner.report.html.certificate import certificate
from gnnplan.planner.report.html.element import Html, element
from gnnplan.planner.report.html.run_parts import comparison
from gnnplan.planner.report.html.style import STYLE
from gnnplan.planner.report.html.timeline import timeline
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing

# Nothing may be loaded from anywhere, whatever stands in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def plan_page(plan: Plan, predicted: Trace, measured: Trace | None, on_step: OnStep = lambda _: None) -> str:
    """The page of a plan, with a run of it laid over where there is one.

    Args:
        predicted: of the plan, simulated with epochs that vary.
        on_step: told in words what is done.

    Raises `UserError` where the traces are not of this plan.
    """
    explanation = explain_plan(plan, on_step=on_step)
    run = [comparison(compare(predicted, measured))] if measured else []
    parts = [
        plan_parts.head(plan, measured),
        certificate(plan, measured),
        timeline(plan, predicted, measured),
        *run,
        plan_parts.techniques(plan),
        plan_parts.workers(plan, explanation),
        why.path(explanation),
        why.prices(explanation),
        why.not_chosen(plan, explanation),
        plan_parts.guesses(plan),
        _footer(plan),
    ]
    return page(f"gnnplan: {plan.job.name}", *parts)


def page(title: str, *parts: Html) -> str:
    """A whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'),
        element("title", title),
        element("style", Html(STYLE)),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *parts), lang='en')}\n"


def _footer(plan: Plan) -> Html:
    where = f"{plan.file}, " if plan.file else ""
    return element("footer", f"Made by gnnplan from {where}plan {plan.fingerprint()}.")


def write_page(path: Path, text: str) -> Path:
    """Writes a page, under a temporary name first."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
