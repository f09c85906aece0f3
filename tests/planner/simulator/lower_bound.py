"""A lower bound on the makespan of a schedule, and what sets it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.engine import CompiledSchedule, compile_schedule, play
from gnnplan.planner.simulator.tables import Ints, Tables, fair_rates


@dataclass(frozen=True)
class Bound:
    """No play of the schedule ends before `seconds`; `set_by` is "critical path" or "resource r"."""

    seconds: float
    set_by: str


def lower_bound(schedule: Schedule) -> Bound:
    """The larger of the critical path and the busiest resource's seconds of work.

    Under a quota a path counts processor time alone, and work the periods it needs, the first of which may
    have begun before. What is charged to a resource counts in neither.

    The critical path lets every task have a resource of its own but keeps dependencies and the
    rendezvous of groups. Counted in nanoseconds as the engine does, so it never exceeds the
    simulated makespan by rounding. On a tie the critical path is named.

    Raises `ValueError` as `compile_schedule` and `play` do.
    """
    compiled = compile_schedule(schedule)
    path_ns = play(without_contention(compiled)).makespan_ns
    busy_ns = np.zeros(schedule.num_resources, dtype=np.int64)
    np.add.at(busy_ns, compiled.tables.resource, compiled.duration_ns)
    limited = (compiled.tables.quota_ns > 0) & (busy_ns > 0)
    busy_ns[limited] = _end_under_quota(busy_ns, compiled.tables)[limited]
    if busy_ns.max(initial=0) <= path_ns:
        return Bound(path_ns / 1e9, "critical path")
    busiest = int(busy_ns.argmax())
    return Bound(int(busy_ns[busiest]) / 1e9, f"resource {busiest}")


def without_contention(compiled: CompiledSchedule) -> CompiledSchedule:
    """The same tasks with a resource of their own each: its makespan is the critical path."""
    num_tasks = len(compiled.labels)
    change_ns, share = fair_rates(num_tasks)
    own = compiled.tables._replace(
        resource=np.arange(num_tasks, dtype=np.int64),
        queue_start=np.arange(num_tasks + 1, dtype=np.int64),
        quota_ns=np.zeros(num_tasks, dtype=np.int64),
        period_ns=np.ones(num_tasks, dtype=np.int64),
        phase_ns=np.zeros(num_tasks, dtype=np.int64),
        charged=np.full(num_tasks, -1, dtype=np.int64),
        change_ns=change_ns,
        share=share,
    )
    return replace(compiled, tables=own)


def _end_under_quota(work_ns: Ints, tables: Tables) -> Ints:
    """When work that begins at 0 and never pauses is done, on each resource that has a quota."""
    quota_ns = np.maximum(tables.quota_ns, 1)
    first_ns = np.minimum(quota_ns, tables.period_ns - tables.phase_ns)
    num_full, rest_ns = np.divmod(work_ns - first_ns - 1, quota_ns)
    later_ns = (num_full + 1) * tables.period_ns - tables.phase_ns + rest_ns + 1
    return np.where(work_ns <= first_ns, work_ns, later_ns)
