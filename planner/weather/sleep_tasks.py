"""Sleeps as tasks of an epoch: one before each worker's forward half, and one before its backward half."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.optimizer import LOSS
from gnnplan.planner.schedule import Schedule, Task

FORWARD, BACKWARD = "sleep/forward", "sleep/backward"


def with_sleeps(schedule: Schedule) -> Schedule:
    """The epoch with two sleeps of every worker, of no time yet, on a resource 2 W + w of its own.

    The forward half begins with the worker's first task, the backward half with the first one behind its loss. What
    stands behind a sleep waits for it; what travels already goes on.
    """
    size = schedule.num_workers
    assert schedule.num_resources <= 2 * size, schedule.num_resources
    slept = Schedule(size, quotas=schedule.quotas)
    moved: list[int] = []  # where each task stands now
    due: list[tuple] = [(FORWARD, ())] * size  # every worker's next sleep, and what it is after
    sleep, behind = [-1] * size, [set[int]() for _ in range(size)]  # its last one, and what stands behind it
    for task in schedule.tasks:
        worker, after = task.worker, tuple(moved[index] for index in task.after)
        if due[worker]:
            key, loss = due[worker]
            sleep[worker] = slept.add(Task(key, worker, "host", 0.0, 2 * size + worker, loss))
            due[worker], behind[worker] = (), {sleep[worker]}
        if behind[worker].isdisjoint(after):
            after = (*after, sleep[worker])
        moved.append(slept.add(replace(task, after=after)))
        behind[worker].add(moved[-1])
        if task.key == LOSS:
            due[worker] = (BACKWARD, (moved[-1],))
    return slept
