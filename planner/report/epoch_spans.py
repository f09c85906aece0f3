"""What is drawn of a trace: one epoch, who waits in it, and bars that are wide enough to be seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnnplan.planner.trace import Span, Trace

Shown = Literal["compute", "communicate", "host", "waiting"]


def median_epoch(trace: Trace) -> int:
    """The traced epoch whose length is nearest the median of the traced ones."""
    lengths: dict[int, float] = {}
    for span in trace.spans:
        lengths[span.epoch] = max(lengths.get(span.epoch, 0.0), span.end_s)
    middle = float(np.median(list(lengths.values())))
    return min(lengths, key=lambda epoch: abs(lengths[epoch] - middle))


def last_to_come_s(spans: Iterable[Span]) -> dict[str, float]:
    """By task that several workers meet in, when the last of them began it."""
    began: dict[str, list[float]] = defaultdict(list)
    for span in spans:
        if span.category == "communicate":
            began[span.task].append(span.start_s)
    return {task: max(starts_s) for task, starts_s in began.items() if len(starts_s) > 1}


def waiting_until_s(span: Span, last_s: Mapping[str, float]) -> float:
    """Until when a span waits for the last one to come; its start where it does not wait."""
    return max(min(last_s.get(span.task, 0.0), span.end_s), span.start_s)


@dataclass(frozen=True)
class Bar:
    """Something that is drawn from `start_s` to `end_s`; `words` say what it is."""

    what: Shown
    start_s: float
    end_s: float
    words: str
    unprofiled: bool = False


def bars_of(spans: Sequence[Span], worker: int, least_s: float) -> list[Bar]:
    """A worker's bars in an epoch; those shorter than `least_s` are drawn together with what is beside them.

    Args:
        spans: of the epoch, of all workers.
    """
    last_s, found = last_to_come_s(spans), []
    for span in sorted((span for span in spans if span.worker == worker), key=lambda span: span.start_s):
        until_s = waiting_until_s(span, last_s)
        if until_s > span.start_s:
            found.append(Bar("waiting", span.start_s, until_s, f"{span.task}, waiting"))
        if span.end_s > until_s:
            found.append(Bar(span.category, until_s, span.end_s, span.task, span.unprofiled))
    return [bar for what in ("host", "compute", "communicate", "waiting") for bar in _merged(found, what, least_s)]


def _merged(bars: Iterable[Bar], what: str, least_s: float) -> list[Bar]:
    merged: list[Bar] = []
    for bar in bars:
        if bar.what != what:
            continue
        last = merged[-1] if merged else None
        is_short = last and min(last.end_s - last.start_s, bar.end_s - bar.start_s) < least_s
        if last and is_short and bar.start_s - last.end_s < least_s:
            end_s = max(last.end_s, bar.end_s)
            merged[-1] = Bar(last.what, last.start_s, end_s, _several(last), last.unprofiled or bar.unprofiled)
        else:
            merged.append(bar)
    return merged


def _several(bar: Bar) -> str:
    return bar.words if bar.words.endswith(" ...") else f"{bar.words} ..."
