"""The critical path of a plan's epochs, grouped to what each worker computes and what each collective takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gnnplan.planner.explain.epochs import PlayedProgram
from gnnplan.planner.explain.explanation import PathPart
from gnnplan.planner.simulator.critical_path import critical_path

_NUM_TASKS = 3  # named of every part
_Part = tuple[str, int | None]  # a collective in words and who sets it, or nothing and who computes


def path_parts(programs: Sequence[PlayedProgram]) -> tuple[PathPart, ...]:
    """Parts of the mean epoch, the longest first; their seconds add up to it."""
    parts: dict[_Part, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for program in programs:
        for part, key, num_ns in _stretches(program):
            parts[part][key] += program.share * num_ns / 1e9
    epoch_s = sum(sum(tasks.values()) for tasks in parts.values())
    return tuple(sorted(_parts(parts.items(), epoch_s), key=lambda part: -part.seconds))


def _stretches(program: PlayedProgram) -> Iterator[tuple[_Part, str, int]]:
    median = program.median
    for each in critical_path(median.compiled, median.timeline, median.begin_ns, median.end_ns):
        task = program.schedule.tasks[each.task % len(program.schedule.tasks)]  # epochs stand on end
        meeting = program.meetings.get(task.key)
        part = (meeting.words, meeting.setter) if meeting else ("", task.worker)
        yield part, task.key, each.end_ns - each.start_ns


def _parts(found: Iterable[tuple[_Part, dict[str, float]]], epoch_s: float) -> Iterator[PathPart]:
    for (words, worker), tasks in found:
        total_s = sum(tasks.values())
        longest = tuple(sorted(tasks, key=lambda key: -tasks[key])[:_NUM_TASKS])
        yield PathPart(collective=words, worker=worker, tasks=longest, seconds=total_s, share=total_s / epoch_s)
