"""Schedules on end, as arrays: the same epoch again and again, or epochs of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from gnnplan.planner.simulator.engine import CompiledSchedule, offsets
from gnnplan.planner.simulator.tables import Ints


def on_end(parts: Sequence[CompiledSchedule]) -> CompiledSchedule:
    """One schedule after another: every worker begins the next when its last task of the one before has ended.

    It plays as `Schedule.repeated` does.

    Args:
        parts: one or more, of the same workers and quotas; they may be one object many times.
    """
    starts = np.concatenate([[0], np.cumsum([part.duration_ns.size for part in parts])])
    groups = np.concatenate([[0], np.cumsum([part.tables.group_start.size - 1 for part in parts])])
    sources, targets = _edges(parts, starts)
    tables = [part.tables for part in parts]
    resource = np.concatenate([each.resource for each in tables])
    group = [np.where(each.group < 0, -1, each.group + first) for each, first in zip(tables, groups)]
    sizes = [np.diff(each.group_start) for each in tables]
    members = [each.group_members + first for each, first in zip(tables, starts)]
    widest = max(tables, key=lambda each: each.quota_ns.size)
    assert all((each.quota_ns == widest.quota_ns[: each.quota_ns.size]).all() for each in tables), "quotas differ"
    whole = widest._replace(
        successor_start=offsets(sources, starts[-1]),
        successors=targets[np.argsort(sources, kind="stable")],
        num_predecessors=np.bincount(targets, minlength=starts[-1]),
        resource=resource,
        queue_start=offsets(resource, widest.quota_ns.size),
        group=np.concatenate(group),
        group_start=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]),
        group_members=np.concatenate(members),
        charged=np.concatenate([each.charged for each in tables]),
        charge_ns=np.concatenate([each.charge_ns for each in tables]),
    )
    return CompiledSchedule(
        labels=tuple(chain.from_iterable(part.labels for part in parts)),
        tables=whole,
        duration_ns=np.concatenate([part.duration_ns for part in parts]),
        share=np.concatenate([part.share for part in parts]),
        worker=np.concatenate([part.worker for part in parts]),
    )


def _edges(parts: Sequence[CompiledSchedule], starts: Ints) -> tuple[Ints, Ints]:
    """Who waits for whom: sources and targets, within every part and from part to part."""
    within, between = {}, {}
    sources, targets = [], []
    for part, first in zip(parts, starts):
        if id(part) not in within:
            counts = np.diff(part.tables.successor_start)
            within[id(part)] = np.repeat(np.arange(counts.size), counts)
        sources.append(within[id(part)] + first)
        targets.append(part.tables.successors + first)
    for (part, later), (first, second) in zip(pairwise(parts), pairwise(starts)):
        if (id(part), id(later)) not in between:
            between[id(part), id(later)] = _handed_over(part, later)
        ends, begins = between[id(part), id(later)]
        sources.append(ends + first)
        targets.append(begins + second)
    return np.concatenate(sources), np.concatenate(targets)


def _handed_over(part: CompiledSchedule, later: CompiledSchedule) -> tuple[Ints, Ints]:
    """Pairs of a worker's last tasks of a part and its first ones of the next."""
    last = np.flatnonzero(np.diff(part.tables.successor_start) == 0)
    first = np.flatnonzero(later.tables.num_predecessors == 0)
    which, of = np.nonzero(part.worker[last][:, None] == later.worker[first][None])
    return last[which], first[of]
