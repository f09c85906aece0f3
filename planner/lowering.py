"""A program lowered to one epoch's schedule: halo exchange, all-reduce and step included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from planner.cluster import Placement
from planner.costs import FLOAT_BYTES, ZERO, OperatorCosts, backward_cost, forward_cost, total
from planner.network import Network
from planner.plan import Plan
from planner.program import Program, Step
from planner.schedule import Category, Quota, Schedule, Task
from planner.shapes import WorkerShape
from profiles.curves import Estimate
from profiles.machine import MachineProfile


@dataclass
class FullBatchLowering:
    """Lowers one epoch of full-batch training with blocking halo exchange.

    Args:
        shapes: per worker.
        send_counts: int64 [W, W], rows p sends to q in one exchange.
    """

    program: Program
    placement: Placement
    shapes: tuple[WorkerShape, ...]
    send_counts: np.ndarray
    costs: dict[str, OperatorCosts]
    num_classes: int
    schedule: Schedule = field(init=False)
    sent_bytes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.shapes)
        self.network = Network(self.placement)
        self.schedule = Schedule(size, quotas=self._quotas())
        self.sent_bytes = np.zeros(size, np.int64)
        self._last: list[tuple[int, ...]] = [()] * size
        self._num_groups = 0

    def lower(self) -> Schedule:
        """Forward, loss, backward, all-reduce, optimizer."""
        self._each("zero_grad", lambda w: Estimate(self._cost(w).profile.host_overhead_s, 0.0, False), "host")
        for step in self.program.steps:
            self._forward(step)
        self._each("loss", self._loss)
        for step in reversed(self.program.steps):
            self._backward(step)
        self._reduce()
        self._each("optimizer", self._optimizer)
        return self.schedule

    def _loss(self, worker: int) -> Estimate:
        # The operator's training rows are every other one; the gradient is cleared everywhere.
        shape, cost = self.shapes[worker], self._cost(worker)
        cleared = max(0, shape.num_local - 2 * shape.num_train) * self.num_classes
        return total([cost("loss", shape.num_train, self.num_classes), cost.copy(cleared / 2)])

    def _optimizer(self, worker: int) -> Estimate:
        cost = self._cost(worker)
        step = cost("optimizer_step", self.program.num_parameters)
        return replace(step, seconds=step.seconds + cost.profile.step_overhead_s)

    def _quotas(self) -> dict[int, Quota]:
        limits = {worker: self.placement.profile_of(worker).cpu_quota for worker in range(len(self.shapes))}
        # Nothing sets the hosts' periods to each other: they are taken to begin evenly apart.
        return {
            worker: Quota(limit.share, limit.period_s, phase_s=limit.period_s * worker / len(limits))
            for worker, limit in limits.items()
            if limit
        }

    def _cost(self, worker: int) -> OperatorCosts:
        return self.costs[self.placement.workers[worker].profile]

    def _forward(self, step: Step) -> None:
        if step.op in ("aggregate", "exchange") and len(self.shapes) > 1:
            width = step.in_width
            self._each(
                f"{step.name}/pack/forward", lambda w: self._cost(w)("gather_rows", self.shapes[w].num_sent, width)
            )
            self._exchange(f"{step.name}/exchange/forward", self.send_counts, width)
        if step.op == "exchange" and len(self.shapes) == 1:
            return
        self._each(f"{step.name}/forward", lambda w: forward_cost(step, self.shapes[w], self._cost(w)))

    def _backward(self, step: Step) -> None:
        costs = [backward_cost(step, shape, self._cost(w)) for w, shape in enumerate(self.shapes)]
        if costs[0] is not None:
            self._each(f"{step.name}/backward", lambda w: costs[w] or ZERO)
        elif step.op == "aggregate":
            return
        if step.op in ("aggregate", "exchange") and len(self.shapes) > 1:
            width = step.in_width
            self._exchange(f"{step.name}/exchange/backward", self.send_counts.T, width)
            self._each(
                f"{step.name}/unpack/backward",
                lambda w: self._cost(w)("scatter_add_rows", self.shapes[w].num_sent, width),
            )

    def _reduce(self) -> None:
        if len(self.shapes) == 1:
            return
        elements = self.program.num_parameters + 1  # the loss travels with the gradients
        self._each("reduce/flatten", lambda w: self._cost(w).copy(elements))
        num_bytes = elements * FLOAT_BYTES
        self._collective("reduce", self.network.all_reduce(num_bytes), self.network.all_reduce_processor_s(num_bytes))
        self._each("reduce/unflatten", lambda w: Estimate(0.0, 0.0, False))

    def _exchange(self, key: str, rows: np.ndarray, width: int) -> None:
        sent_bytes = rows * (width * FLOAT_BYTES)
        self.sent_bytes += sent_bytes.sum(1)
        self._collective(key, self.network.all_to_all(sent_bytes), self.network.all_to_all_processor_s(sent_bytes))

    def _collective(self, key: str, estimate: Estimate, processor_s: list[float]) -> None:
        for worker, charge_s in enumerate(processor_s):
            link, group = len(self.shapes) + worker, self._num_groups
            task = self._task(key, worker, "communicate", estimate, resource=link)
            self._add(replace(task, group=group, charged=worker, processor_s=charge_s))
        self._num_groups += 1

    def _each(self, key: str, estimate_of: Callable[[int], Estimate], category: Category = "compute") -> None:
        """Adds one task per worker on its own, after the worker's previous one."""
        for worker in range(len(self.shapes)):
            estimate = estimate_of(worker)
            profile = self._cost(worker).profile
            seconds = estimate.seconds if category != "compute" else with_overhead_s(estimate.seconds, profile)
            self._add(self._task(key, worker, category, replace(estimate, seconds=seconds), resource=worker))

    def _task(self, key: str, worker: int, category: Category, estimate: Estimate, *, resource: int) -> Task:
        return Task(
            key,
            worker,
            category,
            estimate.seconds,
            resource,
            after=self._last[worker],
            spread_s=estimate.spread_s,
            unprofiled=estimate.unprofiled,
            parts=estimate.parts,
        )

    def _add(self, task: Task) -> None:
        self._last[task.worker] = (self.schedule.add(task),)


def with_overhead_s(seconds: float, profile: MachineProfile) -> float:
    """A task's seconds with its host overhead: a CPU runs Python first, a GPU's launches run ahead of it."""
    overhead_s = profile.host_overhead_s
    return seconds + overhead_s if profile.device_kind == "cpu" else max(seconds, overhead_s)


def lower_plan(plan: Plan) -> Schedule:
    """The schedule of a plan, from what stands in the plan alone."""
    costs = {name: OperatorCosts.of(profile) for name, profile in plan.placement.profiles.items()}
    counts = np.array(plan.send_counts, dtype=np.int64)
    return FullBatchLowering(plan.program(), plan.placement, plan.shapes, counts, costs, plan.graph.num_classes).lower()
