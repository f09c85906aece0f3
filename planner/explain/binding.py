"""Where each worker's epoch goes: computing, its own port, waiting for whom, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.explain.epochs import Meeting, PlayedProgram
from gnnplan.planner.explain.explanation import Binds, WorkerBinding, WorkerTime

_Label = tuple[Binds, int | None]
_Span = tuple[_Label, int, int]  # what a worker does, from when to when in ns
_ORDER: tuple[Binds, ...] = ("wait", "port", "compute")  # what comes later counts where both are


def worker_bindings(programs: Sequence[PlayedProgram], placement: Placement) -> tuple[WorkerBinding, ...]:
    """Of every worker; its seconds add up to the mean epoch."""
    spans = [_spans_by_worker(program) for program in programs]
    found = []
    for rank, place in enumerate(placement.workers):
        seconds: dict[_Label, float] = defaultdict(float)
        for program, of_workers in zip(programs, spans, strict=True):
            for label, num_ns in _painted(of_workers[rank], program.median.begin_ns, program.median.end_ns):
                seconds[label] += program.share * num_ns / 1e9
        found.append(WorkerBinding(worker=rank, host=place.host, times=tuple(_times(seconds))))
    return tuple(found)


def _times(seconds: dict[_Label, float]) -> Iterator[WorkerTime]:
    epoch_s = sum(seconds.values())
    for (what, peer), of_it in sorted(seconds.items(), key=lambda item: -item[1]):
        yield WorkerTime(what=what, peer=peer, seconds=of_it, share=of_it / epoch_s)


def _spans_by_worker(program: PlayedProgram) -> list[list[_Span]]:
    """What every worker does at any time around the epoch of median length."""
    timeline, tables = program.median.timeline, program.median.compiled.tables
    found: list[list[_Span]] = [[] for _ in range(program.schedule.num_workers)]
    tasks, last = program.schedule.tasks, _last_members(program)
    for index in range(len(timeline.end_ns)):
        task = tasks[index % len(tasks)]
        arrive, start, end = (int(t[index]) for t in (timeline.arrive_ns, timeline.start_ns, timeline.end_ns))
        if end <= program.median.begin_ns or arrive >= program.median.end_ns:
            continue
        if meeting := program.meetings.get(task.key):
            peer = tasks[last[tables.group[index]] % len(tasks)].worker
            found[task.worker] += _of_meeting(meeting, task.worker, peer, (arrive, start, end))
        else:
            found[task.worker].append((("compute", None), start, end))
    return found


def _last_members(program: PlayedProgram) -> list[int]:
    """By group the task of the member that comes last."""
    tables, arrive_ns = program.median.compiled.tables, program.median.timeline.arrive_ns
    groups = (tables.group_members[slice(*ends)] for ends in zip(tables.group_start, tables.group_start[1:]))
    return [int(members[arrive_ns[members].argmax()]) for members in groups]


def _of_meeting(meeting: Meeting, worker: int, last: int, times: tuple[int, int, int]) -> Iterable[_Span]:
    """Waiting for whoever comes last, then its own port, then for whoever's port takes longest."""
    arrive, start, end = times
    own_end = start + round((end - start) * meeting.own_share(worker))
    yield ("wait", last), arrive, start
    yield ("port", None), start, own_end
    yield ("wait", int(meeting.ports_s.argmax())), own_end, end


def _painted(spans: Sequence[_Span], begin: int, end: int) -> Iterator[tuple[_Label, int]]:
    """Nanoseconds of each label between two moments; where spans overlap the later of `_ORDER` counts."""
    labels: list[_Label] = [("idle", None), *dict.fromkeys(label for label, _, _ in spans)]
    number = {label: at for at, label in enumerate(labels)}
    moments = np.clip(np.array([begin, end, *(moment for span in spans for moment in span[1:])]), begin, end)
    edges = np.unique(moments)
    painted = np.zeros(max(len(edges) - 1, 0), np.int64)
    for label, start, stop in sorted(spans, key=lambda span: _ORDER.index(span[0][0])):
        first, last = np.searchsorted(edges, np.clip([start, stop], begin, end))
        painted[first:last] = number[label]
    lengths = np.bincount(painted, np.diff(edges), len(labels))
    yield from ((label, int(length)) for label, length in zip(labels, lengths, strict=True) if length)
