"""Why a plan takes what it takes, and what lost against it."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.explain.explanation import Explanation
from gnnplan.planner.interval.ranking import are_apart_here
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.explanation import NO_PRICES, NOTHING, kind_words, moved_words, part_words, why_words
from gnnplan.planner.report.html.element import Html, bar, element, section, table
from gnnplan.planner.report.units import seconds, signed

_MOST = 12


def path(explanation: Explanation) -> Html:
    """What an epoch waits for."""
    rows = [
        (f"{part.share:.1%}", bar(part.share, _category(part.collective), part_words(part)), part_words(part))
        for part in explanation.path[:_MOST]
    ]
    body = table(("share", "of the epoch", "what"), rows, numbers=(0,))
    return section("What the epoch waits for", body, note="The critical path: from its begin to its end.")


def _category(collective: str) -> str:
    return "communicate" if collective else "compute"


def prices(explanation: Explanation) -> Html:
    """What would help."""
    helping = [price for price in explanation.prices if abs(price.share) >= NOTHING][:_MOST]
    rows = [
        (", ".join(price.resources), f"{price.factor - 1:.0%}", f"{price.share:+.1%}", signed(price.moved_s))
        for price in helping
    ]
    columns = ("resource", "better by", "epoch", "moved")
    nothing = element("p", "Nothing." if explanation.prices else NO_PRICES)
    body = table(columns, rows, numbers=(1, 2, 3), is_narrow=True) if rows else nothing
    larger = (element("p", moved_words(price)) for price in explanation.combined)
    return section("What would help", body, *larger, note="This plan with one resource better, simulated again.")


def not_chosen(plan: Plan, explanation: Explanation) -> Html:
    """The best candidate of every kind that lost."""
    if not explanation.rejected:
        return section("What was not chosen", element("p", "This plan keeps nothing of what was not chosen."))
    return section(
        "What was not chosen",
        table(("kind", "candidate", "epoch", "why not"), _rejected(plan, explanation), numbers=(2,)),
        note="The best of every kind that the search looked at.",
    )


def _rejected(plan: Plan, explanation: Explanation) -> Iterator[tuple[str, str, str, str]]:
    chosen = plan.prediction
    for each in explanation.rejected:
        is_near = not each.missing_bytes and not are_apart_here(each.epoch_s, chosen.long_run_epoch_s, chosen.interval)
        near = "; too near to tell" if is_near else ""
        yield kind_words(each), each.summary, seconds(each.epoch_s), why_words(each, explanation) + near
