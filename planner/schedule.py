"""A plan lowered to tasks: what the simulator plays on a virtual clock and the runtime on devices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Category = Literal["compute", "communicate", "host"]


@dataclass(frozen=True, slots=True)
class Task:
    """One step of one worker.

    Args:
        key: of its operator, e.g. `l0/forward/aggregate`; measured traces use the same. Unique within the worker, but
            where batch after batch passes through an operator.
        worker: rank.
        category: what the time is booked under.
        seconds: predicted duration once it runs.
        resource: what it occupies while it runs; a resource runs one task at a time.
        after: indices of tasks that must have ended.
        group: rendezvous id (-1: none). Tasks of one group start together, once every member is
            ready and its resource is free: a collective.
        spread_s: interquartile range of `seconds` where it was measured, as `gnnplan.profiles.machine.Point` has it.
        unprofiled: the prediction rests on a shape outside what was profiled.
        parts: profiled operators and their seconds, whose sum the prediction is (overheads aside).
        charged: resource whose processor time it uses meanwhile, without occupying it (-1: none).
        processor_s: how much of it.
    """

    key: str
    worker: int
    category: Category
    seconds: float
    resource: int
    after: tuple[int, ...] = ()
    group: int = -1
    spread_s: float = 0.0
    unprofiled: bool = False
    parts: tuple[tuple[str, float], ...] = ()
    charged: int = -1
    processor_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Quota:
    """A resource that runs for `share` of every `period_s`, from its start, and stands still for the rest.

    A task's `seconds` are sustained ones, over many periods; right after a pause it is faster. One that
    is `charged` to the resource ends no sooner than its `processor_s` could be had there.

    Args:
        phase_s: of the first period that is over when the schedule starts.
        host: number of whom the quota limits: resources of one host have one period (-1: none has it as well).
    """

    share: float
    period_s: float
    phase_s: float = 0.0
    host: int = -1


@dataclass
class Schedule:
    """Tasks of one epoch, in an order in which every dependency comes first.

    Args:
        quotas: by resource; those without one never stand still. No task of a group may run there.
    """

    num_workers: int
    tasks: list[Task] = field(default_factory=list)
    quotas: dict[int, Quota] = field(default_factory=dict)

    def add(self, task: Task) -> int:
        """Appends a task and returns its index; dependencies must already stand in the schedule."""
        assert all(0 <= index < len(self.tasks) for index in task.after), task
        assert 0 <= task.worker < self.num_workers, task
        self.tasks.append(task)
        return len(self.tasks) - 1

    @property
    def num_resources(self) -> int:
        """One more than the largest resource id."""
        return 1 + max((task.resource for task in self.tasks), default=-1)

    def repeated(self, count: int) -> Schedule:
        """`count` epochs on end: every worker begins the next when its last task has ended."""
        whole = Schedule(self.num_workers, quotas=self.quotas)
        num_groups = 1 + max((task.group for task in self.tasks), default=-1)
        has_successor = {index for task in self.tasks for index in task.after}
        ends: dict[int, list[int]] = {worker: [] for worker in range(self.num_workers)}
        for index, task in enumerate(self.tasks):
            if index not in has_successor:
                ends[task.worker].append(index)
        for epoch in range(count):
            first = len(whole.tasks)
            before = first - len(self.tasks)
            for task in self.tasks:
                after = tuple(first + index for index in task.after)
                if epoch and not after:
                    after = tuple(before + index for index in ends[task.worker])
                group = task.group if task.group < 0 else task.group + epoch * num_groups
                whole.add(replace(task, after=after, group=group))
        return whole

    def keys_of(self, worker: int) -> list[str]:
        """Task keys of a worker in schedule order."""
        return [task.key for task in self.tasks if task.worker == worker]
