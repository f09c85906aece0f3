"""Random schedules for the tests of the simulator: contention, ties, rendezvous, zero durations."""

from __future__ import annotations

import numpy as np

from planner.schedule import Schedule, Task


def random_schedule(rng: np.random.Generator, max_steps: int = 14, max_resources: int = 4) -> Schedule:
    """A schedule of single tasks and groups on distinct resources, of few distinct durations.

    No task depends on a later one or on its own group, but groups may still cross on two
    resources, so some of these schedules deadlock.
    """
    num_resources = int(rng.integers(1, max_resources + 1))
    schedule = Schedule(num_workers=1)
    for step in range(int(rng.integers(1, max_steps + 1))):
        is_group = num_resources > 1 and rng.random() < 0.3
        size = int(rng.integers(2, num_resources + 1)) if is_group else 1
        known = len(schedule.tasks)
        for resource in rng.permutation(num_resources)[:size].tolist():
            after = rng.integers(0, known, size=int(rng.integers(0, 3))).tolist() if known else []
            seconds = int(rng.integers(0, 4)) * 1e-9
            group = step if is_group else -1
            key = f"t{len(schedule.tasks)}"
            schedule.add(Task(key, 0, "compute", seconds, resource, tuple(after), group))
    return schedule
