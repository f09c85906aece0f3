"""An epoch as strips: of every worker what is predicted, and below it what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.plan import Plan
from gnnplan.planner.report.epoch_spans import Bar, bars_of, median_epoch
from gnnplan.planner.report.html.element import Html, element, section, strip
from gnnplan.planner.report.units import seconds
from gnnplan.planner.trace import Span, Trace

_MOST_WORKERS = 16
_LEAST_SHARE = 1 / 700  # of the epoch: narrower bars are drawn together
_TALL = 22
_LANES = {"compute": (0, 12), "host": (0, 12), "communicate": (13, 9), "waiting": (13, 9)}
_KEYS = {
    "compute": "computes",
    "communicate": "sends and receives",
    "waiting": "waits for the last worker",
    "host": "the host's own work",
}
_NUM_TICKS = 4


def timeline(plan: Plan, predicted: Trace, measured: Trace | None) -> Html:
    """One epoch; of the measured ones that nearest the median."""
    sides = {"predicted": _epoch(predicted)} | ({"measured": _epoch(measured)} if measured else {})
    whole_s = max((span.end_s for spans in sides.values() for span in spans), default=0.0) or 1.0
    shown = range(min(plan.num_workers, _MOST_WORKERS))
    rest = plan.num_workers - len(shown)
    more = [element("p", f"{rest} more workers are not drawn.", class_="note")] if rest else []
    return section(
        "One epoch",
        _key(),
        *(row for worker in shown for row in _worker(plan, worker, sides, whole_s)),
        _axis(whole_s),
        *more,
        note="Above what a worker computes, below what travels. Tasks take their median; point at a bar for its name.",
    )


def _epoch(trace: Trace) -> list[Span]:
    if not trace.spans:
        return []
    epoch = median_epoch(trace)
    return [span for span in trace.spans if span.epoch == epoch]


def _key() -> Html:
    entries = (element("span", element("i", style=f"background:var(--{what})"), words) for what, words in _KEYS.items())
    return element("div", *entries, class_="key")


def _worker(plan: Plan, worker: int, sides: dict[str, list[Span]], whole_s: float) -> Iterator[Html]:
    yield element("h3", f"worker {worker} on {plan.placement.workers[worker].host}")
    lanes = []
    for side, spans in sides.items():
        bars = bars_of(spans, worker, whole_s * _LEAST_SHARE)
        words = f"{side} epoch of worker {worker}"
        lanes += [element("span", side), strip((_mark(bar, whole_s) for bar in bars), words, _TALL)]
    yield element("div", *lanes, class_="lanes")


def _mark(bar: Bar, whole_s: float) -> Html:
    top, tall = _LANES[bar.what]
    begin, end = 1000 * bar.start_s / whole_s, 1000 * bar.end_s / whole_s
    guess = ", outside the profile" if bar.unprofiled else ""
    return element(
        "rect",
        element("title", f"{bar.words}: {seconds(bar.end_s - bar.start_s)}{guess}"),
        x=f"{begin:.2f}",
        y=top,
        width=f"{max(end - begin, 0.6):.2f}",
        height=tall,
        class_=f"{bar.what} unprofiled" if bar.unprofiled else bar.what,
    )


def _axis(whole_s: float) -> Html:
    ticks = (element("span", seconds(whole_s * tick / _NUM_TICKS)) for tick in range(_NUM_TICKS + 1))
    return element("div", element("span"), element("div", *ticks, class_="axis"), class_="lanes")
