"""Discrete-event engine: plays a schedule on a virtual clock of integer nanoseconds.

At one instant the engine alternates two steps until neither changes anything: first every task
that is due ends (its resource is free again, its successors may become ready), then every free
resource takes the first of its ready tasks, in order of (ready time, task index). A task of a
group holds its resource from there on and starts when the last member of its group holds its own.
Work takes its duration at a resource's fair rate, and longer while the rate is lower (`at_rates`).
The outcome depends on nothing but the schedule, the durations and the rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.tables import NEVER_NS, Ints, Tables, Workspace, fair_rates, make_workspace
from gnnplan.profiles.kernels.lazily import Lazily

_loop = Lazily("gnnplan.planner.simulator.event_loop")

_MAX_SHOWN_KEYS = 8


class DeadlockError(ValueError):
    """Some tasks can never end; the message names them."""


@dataclass(frozen=True)
class CompiledSchedule:
    """A schedule as plain arrays.

    Args:
        labels: [T] worker and key of each task, for error messages.
        tables: dependencies, resources and groups.
        duration_ns: [T] predicted durations, seconds rounded to the nearest nanosecond; on a resource
            with a quota the processor time in them.
        share: [T] of its seconds that a task spends running: 1 but under a quota.
        worker: [T].
    """

    labels: tuple[str, ...]
    tables: Tables
    duration_ns: Ints
    share: NDArray[np.float64]
    worker: Ints


@dataclass(frozen=True)
class Timeline:
    """When each of T tasks took its resource, started its work and ended, and when the last one ended."""

    arrive_ns: Ints
    start_ns: Ints
    end_ns: Ints
    makespan_ns: int

    @property
    def makespan_s(self) -> float:
        """Seconds from 0 to the end of the last task."""
        return self.makespan_ns / 1e9


def compile_schedule(schedule: Schedule) -> CompiledSchedule:
    """Turns a schedule into arrays for `play` and `play_many`.

    Raises `ValueError` on a duration that is negative or not finite, a dependency on a task that
    does not exist, a negative resource, a group with two members on one resource or under a quota,
    and a quota that is not one.
    """
    tasks = schedule.tasks
    labels = tuple(f"w{task.worker} {task.key}" for task in tasks)
    seconds = np.array([task.seconds for task in tasks], dtype=np.float64)
    resource = np.array([task.resource for task in tasks], dtype=np.int64)
    raw_group = np.array([task.group for task in tasks], dtype=np.int64)
    fan_in = np.array([len(task.after) for task in tasks], dtype=np.int64)
    sources = np.array([index for task in tasks for index in task.after], dtype=np.int64)
    targets = np.repeat(np.arange(len(tasks), dtype=np.int64), fan_in)
    _check(~(np.isfinite(seconds) & (seconds >= 0)), labels, "seconds must be finite and >= 0")
    _check(resource < 0, labels, "the resource must be >= 0")
    outside = (sources < 0) | (sources >= len(tasks))
    _check(np.isin(np.arange(len(tasks)), targets[outside]), labels, "depends on a task that does not exist")
    group, group_start, group_members = _group_tables(raw_group)
    charged = np.array([task.charged for task in tasks], dtype=np.int64)
    charge_s = np.array([task.processor_s for task in tasks], dtype=np.float64)
    quota_ns, period_ns, phase_ns, share_of = _quota_tables(schedule)
    share = share_of[resource]
    change_ns, rates = fair_rates(schedule.num_resources)
    _check((share < 1) & (group >= 0), labels, "a group's task cannot run under a quota")
    _check(~(np.isfinite(charge_s) & (charge_s >= 0)), labels, "processor_s must be finite and >= 0")
    _check((charged >= 0) & (group < 0), labels, "only a group's task can be charged to a resource")
    _check((charged < -1) | (charged >= schedule.num_resources), labels, "charged to a resource that does not exist")
    _check(_shares_resource_with_its_group(group, resource), labels, "its group needs one resource twice")
    duration_ns = np.rint(seconds * share * 1e9).astype(np.int64)
    charge_ns = np.rint(charge_s * 1e9).astype(np.int64)
    is_whole = (quota_ns == 0) | (quota_ns == period_ns)  # then a charge takes no longer than the group
    is_free = (charged >= 0) & is_whole[charged]
    charge_ns[is_free] = np.minimum(charge_ns, _least_of_group(duration_ns, group))[is_free]
    tables = Tables(
        successor_start=offsets(sources, len(tasks)),
        successors=targets[np.argsort(sources, kind="stable")],
        num_predecessors=fan_in,
        resource=resource,
        queue_start=offsets(resource, schedule.num_resources),
        group=group,
        group_start=group_start,
        group_members=group_members,
        quota_ns=quota_ns,
        period_ns=period_ns,
        phase_ns=phase_ns,
        charged=charged,
        charge_ns=charge_ns,
        change_ns=change_ns,
        share=rates,
    )
    worker = np.array([task.worker for task in tasks], dtype=np.int64)
    return CompiledSchedule(labels, tables, duration_ns, share, worker)


def at_rates(compiled: CompiledSchedule, change_ns: Ints, share: NDArray[np.float64]) -> CompiledSchedule:
    """The same tasks on resources whose rates change.

    A task runs at its resource's rate, a group at that of whichever of its members' lasts longest, and what is charged
    to a resource at that one's. Under a quota each period has a share of the quota.

    Args:
        change_ns: [R, C] moments at which each resource's rate changes, ascending; `NEVER_NS` where there are fewer.
        share: [R, C + 1] in (0, 1], of the fair rate: before the first change, and after each.
    """
    size = compiled.tables.queue_start.size - 1
    assert change_ns.shape == (size, share.shape[1] - 1), (change_ns.shape, share.shape, size)
    assert share.size == 0 or (share.min() > 0 and share.max() <= 1), "shares must lie in (0, 1]"
    ended = np.concatenate([change_ns, np.full((size, 1), NEVER_NS)], axis=1)
    return replace(compiled, tables=compiled.tables._replace(change_ns=ended, share=np.ascontiguousarray(share)))


def play(compiled: CompiledSchedule, duration_ns: Ints | None = None) -> Timeline:
    """Plays a schedule once.

    Args:
        compiled: from `compile_schedule`.
        duration_ns: [T] durations to play instead of the compiled ones, each >= 0.

    Raises `DeadlockError` (a `ValueError`) naming the tasks that can never end: groups that hold
    what the other needs, or dependencies in a circle.
    """
    durations = compiled.duration_ns if duration_ns is None else np.ascontiguousarray(duration_ns, np.int64)
    assert durations.shape == compiled.duration_ns.shape, (durations.shape, compiled.duration_ns.shape)
    assert not durations.size or durations.min() >= 0, "durations must be >= 0"
    work = make_workspace(compiled.tables)
    if _loop.play_once(compiled.tables, work, durations) < durations.size:
        raise DeadlockError(_describe_deadlock(compiled, work))
    makespan_ns = int(work.end_ns.max(initial=0))
    return Timeline(work.arrive_ns, work.start_ns, work.end_ns, makespan_ns)


def play_many(compiled: CompiledSchedule, duration_ns: Ints, num_epochs: int = 1, phase_ns: Ints | None = None) -> Ints:
    """Plays a schedule once for each row of `duration_ns` [R, T].

    Args:
        num_epochs: how often the schedule repeats itself.
        phase_ns: [R, resources], how much of each quota's period is over at the start, instead of the schedule's own.

    Returns:
        [R, `num_epochs`]: when each epoch has ended, ns.

    Runs on one core and holds no interpreter lock. Raises `DeadlockError` at the first replica
    that cannot end.
    """
    durations = np.ascontiguousarray(duration_ns, np.int64)
    assert durations.shape[1:] == compiled.duration_ns.shape, (durations.shape, compiled.duration_ns.shape)
    assert not durations.size or durations.min() >= 0, "durations must be >= 0"
    assert compiled.duration_ns.size % num_epochs == 0, (compiled.duration_ns.size, num_epochs)
    end_ns = np.zeros((len(durations), num_epochs), dtype=np.int64)
    own_ns = compiled.tables.phase_ns
    phases = np.broadcast_to(own_ns if phase_ns is None else phase_ns, (len(durations), own_ns.size))
    tables, work = compiled.tables._replace(phase_ns=own_ns.copy()), make_workspace(compiled.tables)
    replica = _loop.play_replicas(tables, work, durations, np.ascontiguousarray(phases), end_ns)
    if replica < len(durations):
        raise DeadlockError(f"replica {replica}: {_describe_deadlock(compiled, work)}")
    return end_ns


def offsets(ids: Ints, num_ids: int) -> Ints:
    """int64 [num_ids + 1]: where each id's entries begin, once entries are in the order of their ids."""
    return np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=num_ids))]).astype(np.int64)


def _check(is_wrong: NDArray[np.bool_], labels: tuple[str, ...], fault: str) -> None:
    if is_wrong.any():
        raise ValueError(f"{labels[int(np.argmax(is_wrong))]}: {fault}")


def _quota_tables(schedule: Schedule) -> tuple[Ints, Ints, Ints, NDArray[np.float64]]:
    """Per resource: processor time a period, the period, its phase, and the share (0, 1, 0, 1 without a quota)."""
    size = schedule.num_resources
    quota_ns, period_ns = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    phase_ns = np.zeros(size, dtype=np.int64)
    share = np.ones(size, dtype=np.float64)
    for resource, quota in schedule.quotas.items():
        if not (0 < quota.share <= 1 and 1e-6 <= quota.period_s < np.inf and 0 <= quota.phase_s < quota.period_s):
            raise ValueError(f"resource {resource}: not a quota: {quota}")
        if resource < size:
            period_ns[resource] = round(quota.period_s * 1e9)
            quota_ns[resource] = max(1, round(quota.share * quota.period_s * 1e9))
            phase_ns[resource] = int(quota.phase_s * 1e9)
            share[resource] = quota_ns[resource] / period_ns[resource]
    return quota_ns, period_ns, phase_ns, share


def _group_tables(raw_group: Ints) -> tuple[Ints, Ints, Ints]:
    members = np.flatnonzero(raw_group >= 0)
    ids, dense = np.unique(raw_group[members], return_inverse=True)
    group = np.full(raw_group.size, -1, dtype=np.int64)
    group[members] = dense
    by_group = members[np.argsort(dense, kind="stable")].astype(np.int64)
    return group, offsets(dense.astype(np.int64), ids.size), by_group


def _least_of_group(duration_ns: Ints, group: Ints) -> Ints:
    """Of every task the shortest duration in its group; its own where it has none."""
    least_ns = np.full(group.max(initial=-1) + 1, NEVER_NS)
    np.minimum.at(least_ns, group[group >= 0], duration_ns[group >= 0])
    return np.where(group >= 0, np.append(least_ns, 0)[group], duration_ns)


def _shares_resource_with_its_group(group: Ints, resource: Ints) -> NDArray[np.bool_]:
    order = np.lexsort((resource, group))
    same = (np.diff(group[order]) == 0) & (np.diff(resource[order]) == 0) & (group[order][1:] >= 0)
    return np.isin(np.arange(group.size), order[1:][same])


def _describe_deadlock(compiled: CompiledSchedule, work: Workspace) -> str:
    stuck = work.end_ns < 0
    holding = np.flatnonzero(stuck & (work.arrive_ns >= 0))
    waiting = np.flatnonzero(stuck & (work.arrive_ns < 0))
    parts = [f"deadlock: {int(stuck.sum())} of {stuck.size} tasks never end"]
    if holding.size:
        parts.append(f"holding a resource until their group is complete: {_shown(compiled, holding)}")
    if waiting.size:
        parts.append(f"waiting for a resource or a dependency: {_shown(compiled, waiting)}")
    return "; ".join(parts)


def _shown(compiled: CompiledSchedule, tasks: NDArray) -> str:
    keys = ", ".join(compiled.labels[task] for task in tasks[:_MAX_SHOWN_KEYS])
    more = tasks.size - _MAX_SHOWN_KEYS
    return f"{keys} and {more} more" if more > 0 else keys
