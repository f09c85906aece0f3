"""Epochs in which all wait for all, under weather: the event engine plays their schedules on end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle as over_and_over
from itertools import islice

import numpy as np

from gnnplan.planner.schedule import Quota, Schedule
from gnnplan.planner.simulator.engine import CompiledSchedule, at_rates, compile_schedule, play
from gnnplan.planner.simulator.on_end import on_end
from gnnplan.planner.simulator.tables import NEVER_NS, Ints
from gnnplan.planner.weather.conditions import Conditions
from gnnplan.planner.weather.play import Run
from gnnplan.planner.weather.sleep_tasks import with_sleeps


class WholeEpochs:
    """Runs of a plan without partial reduce.

    In lowered epochs worker w computes on resource w, at its share of the processor, and exchanges on resource W + w,
    at its share of the link.

    Args:
        cycle: the epochs that follow each other over and over; equal ones may be one object.
    """

    def __init__(self, cycle: Sequence[Schedule]) -> None:
        self.num_workers = cycle[0].num_workers
        quotas: dict[int, Quota] = {}  # an epoch that nothing travels beside may have left its own out
        for schedule in cycle:
            quotas |= schedule.quotas
        compiled = {id(schedule): compile_schedule(replace(with_sleeps(schedule), quotas=quotas)) for schedule in cycle}
        self._parts = [compiled[id(schedule)] for schedule in cycle]
        self._runs: dict[int, _Chained] = {}

    def play(self, conditions: Conditions) -> Run:
        """Plays one run of E epochs."""
        size, num_epochs = self.num_workers, conditions.sleep_s.shape[1]
        assert len(conditions.compute) == size, (conditions.compute.shape, size)
        if num_epochs not in self._runs:
            self._runs[num_epochs] = _Chained.of(list(islice(over_and_over(self._parts), num_epochs)))
        run = self._runs[num_epochs]
        timeline = play(at_rates(run.compiled, *_rates(conditions)), run.durations_ns(conditions.sleep_s))
        end_ns = np.maximum.reduceat(timeline.end_ns, run.starts)
        return Run(
            epoch_s=np.diff(end_ns, prepend=0) / 1e9,
            num_members=np.full(num_epochs, size),
            oldest=np.arange(num_epochs) % len(self._parts),  # the first epoch of a cycle sends all rows
        )


@dataclass(frozen=True)
class _Chained:
    """E epochs on end.

    Args:
        starts: [E], the first task of each.
        sleepers: [E, W, 2], each worker's sleeps in each.
    """

    compiled: CompiledSchedule
    starts: Ints
    sleepers: Ints

    @classmethod
    def of(cls, parts: Sequence[CompiledSchedule]) -> _Chained:
        """Of compiled epochs with sleeps."""
        starts = np.cumsum([0, *(part.duration_ns.size for part in parts[:-1])])
        sleepers = {id(part): _sleepers(part) for part in parts}
        return cls(on_end(parts), starts, np.stack([sleepers[id(part)] + at for part, at in zip(parts, starts)]))

    def durations_ns(self, sleep_s: np.ndarray) -> Ints:
        """[T] of every task, with half of `sleep_s` [W, E] before each half of an epoch."""
        durations = self.compiled.duration_ns.copy()
        durations[self.sleepers] = np.rint(sleep_s.T[:, :, None] / 2 * 1e9)
        return durations


def _sleepers(part: CompiledSchedule) -> Ints:
    """[W, 2]: every worker's sleeps, which have the last third of the resources."""
    size = (part.tables.queue_start.size - 1) // 3
    tasks = np.flatnonzero(part.tables.resource >= 2 * size)
    return tasks[np.argsort(part.worker[tasks], kind="stable")].reshape(size, 2)


def _rates(conditions: Conditions) -> tuple[Ints, np.ndarray]:
    """When and to what shares the rates of computing, exchanging and sleeping change: [3 W, C] and [3 W, C + 1]."""
    finite = np.isfinite(conditions.change_s)
    change_ns = np.where(finite, np.rint(np.where(finite, conditions.change_s, 0) * 1e9), NEVER_NS).astype(np.int64)
    never = np.full_like(change_ns, NEVER_NS)
    shares = [conditions.compute, conditions.link, np.ones_like(conditions.compute)]
    return np.concatenate([change_ns, change_ns, never]), np.concatenate(shares)
