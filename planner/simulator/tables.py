"""What the compiled event loop reads and writes. It is compiled when something is first played."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NEVER_NS = 2**62


class Tables(NamedTuple):
    """What the compiled loop reads; T tasks, R resources, G groups, E dependencies.

    Args:
        successor_start: [T + 1] offsets into `successors`.
        successors: [E] task indices, ascending within a task.
        num_predecessors: [T].
        resource: [T].
        queue_start: [R + 1] offsets of each resource's ready queue, which holds all its tasks at most.
        group: [T] 0..G-1, or -1 for none.
        group_start: [G + 1] offsets into `group_members`.
        group_members: task indices.
        quota_ns: [R] processor time a resource gets in each period, or 0 where nothing limits it.
        period_ns: [R].
        phase_ns: [R] of the period that has passed at time 0.
        charged: [T] resource whose processor time the task uses meanwhile, or -1.
        charge_ns: [T], where no quota limits that resource at most what the group takes.
        change_ns: [R, C + 1] moments at which a resource's rate changes, ascending, then never.
        share: [R, C + 1] in (0, 1], of its fair rate until each of these.
    """

    successor_start: Ints
    successors: Ints
    num_predecessors: Ints
    resource: Ints
    queue_start: Ints
    group: Ints
    group_start: Ints
    group_members: Ints
    quota_ns: Ints
    period_ns: Ints
    phase_ns: Ints
    charged: Ints
    charge_ns: Ints
    change_ns: Ints
    share: NDArray[np.float64]


class Workspace(NamedTuple):
    """What the compiled loop writes; reused from replica to replica."""

    num_waiting_for: Ints
    ready_ns: Ints
    arrive_ns: Ints
    start_ns: Ints
    end_ns: Ints
    queue: Ints
    queue_size: Ints
    busy: NDArray[np.bool_]
    touched: Ints
    is_touched: NDArray[np.bool_]
    num_arrived: Ints
    running: Ints
    period_of: Ints
    used_ns: Ints
    is_steady: NDArray[np.bool_]


def make_workspace(tables: Tables) -> Workspace:
    """Room for one play at a time of a schedule; `play_once` resets it."""
    num_tasks, num_resources = tables.resource.size, tables.queue_start.size - 1

    def per_task() -> Ints:
        return np.empty(num_tasks, dtype=np.int64)

    def per_resource(dtype: type = np.int64) -> NDArray:
        return np.empty(num_resources, dtype=dtype)

    return Workspace(
        num_waiting_for=per_task(),
        ready_ns=per_task(),
        arrive_ns=per_task(),
        start_ns=per_task(),
        end_ns=per_task(),
        queue=per_task(),
        queue_size=per_resource(),
        busy=per_resource(np.bool_),
        touched=per_resource(),
        is_touched=per_resource(np.bool_),
        num_arrived=np.empty(tables.group_start.size - 1, dtype=np.int64),
        running=per_resource(),
        period_of=per_resource(),
        used_ns=per_resource(),
        is_steady=per_resource(np.bool_),
    )


def fair_rates(num_resources: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`change_ns` and `share` [R, 1] of resources whose rates never change."""
    return np.full((num_resources, 1), NEVER_NS), np.ones((num_resources, 1))
