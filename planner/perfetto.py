"""Writes traces as Chrome trace-event JSON, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gnnplan.planner.schedule import Category
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.contract import replacing

Event = dict[str, Any]
Placed = tuple[int, int, Span]
"""A span with its start and end in nanoseconds on the one time axis of all epochs."""

_ROWS: tuple[Category, ...] = ("compute", "communicate", "host")


def write_perfetto(path: str | Path, traces: Sequence[Trace], names: Sequence[str]) -> Path:
    """Writes traces side by side into one file and returns its path.

    Every worker of every trace is a process named `<name> w<rank>`; the same worker of different
    traces are neighbours. A process has one row per category, `host` only where there is such
    work, and further rows (`compute 2`) where spans of one category overlap. Epochs follow one
    another. Times are microseconds; `args` hold the task key, the epoch and `unprofiled`. In every exchange an arrow
    goes from the worker that came last, whose rows the others waited for, to each of them.

    Args:
        path: the `.json` file, replaced if it exists.
        traces: predicted and measured ones, in the order in which they shall stand.
        names: one for each trace, e.g. `("predicted", "measured")`.

    Raises `UserError` if the path cannot be written.
    """
    assert len(names) == len(traces), (len(names), len(traces))
    events: list[Event] = []
    for position, (trace, name) in enumerate(zip(traces, names)):
        placed = _placed_by_worker(trace)
        first = len(events)
        for worker in range(max([trace.num_workers, *(rank + 1 for rank in placed)])):
            sort_index = worker * len(traces) + position
            events.extend(_process_events(f"{name} w{worker}", sort_index, placed.get(worker, [])))
        events.extend(_arrows(events[first:], f"{name} "))
    document = {"displayTimeUnit": "ms", "traceEvents": events}
    with replacing(Path(path)) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n")
    return Path(path)


def _placed_by_worker(trace: Trace) -> dict[int, list[Placed]]:
    """Spans of each worker ordered by start, each epoch moved behind the end of the one before."""
    length_ns: dict[int, int] = {}
    for span in trace.spans:
        length_ns[span.epoch] = max(length_ns.get(span.epoch, 0), _nanoseconds(span.end_s))
    offset_ns, total_ns = {}, 0
    for epoch in sorted(length_ns):
        offset_ns[epoch] = total_ns
        total_ns += length_ns[epoch]
    placed: dict[int, list[Placed]] = {}
    for span in trace.spans:
        start_ns = offset_ns[span.epoch] + _nanoseconds(span.start_s)
        end_ns = offset_ns[span.epoch] + _nanoseconds(span.end_s)
        placed.setdefault(span.worker, []).append((start_ns, max(start_ns, end_ns), span))
    for spans in placed.values():
        spans.sort(key=lambda entry: entry[:2])
    return placed


def _process_events(name: str, sort_index: int, placed: list[Placed]) -> Iterator[Event]:
    # Ids start at 1: process and thread 0 are the idle task to the viewers.
    pid = sort_index + 1
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": sort_index}}
    tid = pid * 1000
    for category in _ROWS:
        rows = _rows_without_overlap(entry for entry in placed if entry[2].category == category)
        if not rows and category != "host":
            rows = [[]]
        for number, placed_in_row in enumerate(rows, start=1):
            tid += 1
            row_name = category if number == 1 else f"{category} {number}"
            row: Event = {"ph": "M", "pid": pid, "tid": tid}
            yield row | {"name": "thread_name", "args": {"name": row_name}}
            yield row | {"name": "thread_sort_index", "args": {"sort_index": tid}}
            yield from (_complete_event(pid, tid, entry) for entry in placed_in_row)


def _rows_without_overlap(placed: Iterable[Placed]) -> list[list[Placed]]:
    """Deals spans, ordered by start, onto the first row that is free: viewers draw one at a time."""
    rows: list[list[Placed]] = []
    for entry in placed:
        free = next((row for row in rows if row[-1][1] <= entry[0]), None)
        if free is None:
            rows.append([entry])
        else:
            free.append(entry)
    return rows


def _complete_event(pid: int, tid: int, entry: Placed) -> Event:
    start_ns, end_ns, span = entry
    return {
        "ph": "X",
        "name": span.task,
        "cat": span.category,
        "pid": pid,
        "tid": tid,
        "ts": start_ns / 1000,
        "dur": (end_ns - start_ns) / 1000,
        "args": {"task": span.task, "epoch": span.epoch, "unprofiled": span.unprofiled},
    }


def _arrows(events: Iterable[Event], prefix: str) -> Iterator[Event]:
    """From the last to come of every exchange to the others; arrows bind to the slices around their two ends."""
    met: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] == "communicate":
            met[event["args"]["task"], event["args"]["epoch"]].append(event)
    for (task, epoch), members in met.items():
        last = max(members, key=lambda event: (event["ts"], event["pid"]))
        for other in members:
            if other["pid"] == last["pid"] or other["ts"] + other["dur"] < last["ts"]:
                continue
            arrow = {"name": task, "cat": "rows", "id": f"{prefix}{task} {epoch} {other['pid']}"}
            yield arrow | {"ph": "s", "pid": last["pid"], "tid": last["tid"], "ts": last["ts"]}
            yield arrow | {"ph": "f", "bp": "e", "pid": other["pid"], "tid": other["tid"], "ts": last["ts"]}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
