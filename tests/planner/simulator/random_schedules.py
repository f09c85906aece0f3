"""Random schedules for the tests of the simulator: contention, ties, rendezvous, zero durations, quotas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gnnplan.planner.schedule import Quota, Schedule, Task

_STRETCH = 400  # so that durations are of the order of periods, whose least is a microsecond
_PERIODS_NS = (1000, 1500)
_SHARES = (0.1, 0.25, 0.5, 0.9, 1.0)


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


def under_quotas(schedule: Schedule, rng: np.random.Generator) -> Schedule:
    """The same tasks, longer, where most resources have a quota whose first period has begun before.

    Groups run on resources of their own and are charged to the first ones, as exchanges are to their workers.
    """
    num_resources, ns = schedule.num_resources, 1e-9
    limited = Schedule(schedule.num_workers)
    for resource in range(num_resources):
        if rng.random() < 0.8:
            period_ns = int(rng.choice(_PERIODS_NS))
            phase_ns = int(rng.integers(period_ns))
            limited.quotas[resource] = Quota(float(rng.choice(_SHARES)), period_ns * ns, phase_ns * ns)
    for task in schedule.tasks:
        longer = replace(task, seconds=task.seconds * _STRETCH)
        if task.group >= 0:
            charged = task.resource if rng.random() < 0.8 else -1
            charge_s = int(rng.integers(3 * _STRETCH)) * ns
            longer = replace(longer, resource=num_resources + task.resource, charged=charged, processor_s=charge_s)
        limited.add(longer)
    return limited
