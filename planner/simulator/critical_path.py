"""What an epoch waits for from its begin to its end: the chain of tasks of a played schedule that ends last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.simulator.engine import CompiledSchedule, Timeline
from gnnplan.planner.simulator.tables import Ints


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the critical path: task `task` runs from `start_ns` to `end_ns`."""

    task: int
    start_ns: int
    end_ns: int


def critical_path(compiled: CompiledSchedule, timeline: Timeline, begin_ns: int, end_ns: int) -> list[Stretch]:
    """Stretches that follow one another without a gap from `begin_ns` to `end_ns`, when some task ends.

    From the last task it goes back to the one whose end let it start: one that it depends on, or the one before it on
    its resource. A collective starts when the last of its members is there, so the path goes on along that member.
    What a task waits for its share of a quota is inside its stretch.
    """
    if end_ns <= begin_ns:
        return []
    causes = _Causes(compiled, timeline)
    task, now, found = causes.last(end_ns), end_ns, []
    while True:
        start = max(int(timeline.start_ns[task]), begin_ns)
        found.append(Stretch(task, start, now))
        if start == begin_ns:
            return found[::-1]
        task, now = causes.of(task), start


class _Causes:
    """Looks for the task whose end let another one start."""

    def __init__(self, compiled: CompiledSchedule, timeline: Timeline) -> None:
        self._tables, self._timeline = compiled.tables, timeline
        self._by_end = np.argsort(timeline.end_ns, kind="stable")
        self._ends_ns = timeline.end_ns[self._by_end]

    def last(self, end_ns: int) -> int:
        """A task that has taken time until then."""
        task = int(self._ended_at(end_ns)[0])
        return task if self._timeline.start_ns[task] < end_ns else self.of(task)

    def _ended_at(self, now: int) -> Ints:
        return self._by_end[slice(*np.searchsorted(self._ends_ns, [now, now + 1]))]

    def of(self, task: int) -> int:
        """A task that ends when this one starts and has taken time; tasks of no time in between are passed over."""
        now = int(self._timeline.start_ns[task])
        seen, waiting = {task}, [task]
        for current in waiting:
            for before in self._before(current, now):
                if self._timeline.start_ns[before] < now:
                    return before
                if before not in seen:
                    seen.add(before)
                    waiting.append(before)
        raise AssertionError(f"{task} starts at {now} ns, and nothing ends then")

    def _before(self, task: int, now: int) -> Iterator[int]:
        """Tasks that end at `now` and that some member of the task's group waited for, those depended on first."""
        ended = self._ended_at(now)
        members = [member for member in self._members(task) if self._timeline.arrive_ns[member] == now]
        for member in members:
            yield from (int(before) for before in ended if member in self._successors(before))
        for member in members:
            on_same = self._tables.resource[ended] == self._tables.resource[member]
            yield from (int(before) for before in ended[on_same] if before != member)

    def _members(self, task: int) -> Ints:
        group, tables = self._tables.group[task], self._tables
        return tables.group_members[slice(*tables.group_start[group : group + 2])] if group >= 0 else np.array([task])

    def _successors(self, task: int) -> Ints:
        return self._tables.successors[slice(*self._tables.successor_start[task : task + 2])]
