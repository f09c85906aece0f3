"""A program lowered to one epoch's schedule: halo exchange, all-reduce and step included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import (
    FLOAT_BYTES,
    ZERO,
    OperatorCosts,
    aggregate_backward_costs,
    aggregate_forward_costs,
    backward_cost,
    forward_cost,
    total,
)
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.network import Network
from gnnplan.planner.plan import Plan
from gnnplan.planner.readers.cost import with_overhead_s
from gnnplan.planner.readers.schedule import WHOLE_TIME, schedule_of
from gnnplan.planner.schedule import Category, Quota, Schedule, Task
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program, Step
from gnnplan.profiles.curves import Estimate


@dataclass
class FullBatchLowering:
    """Lowers one epoch of full-batch training with halo exchange.

    Args:
        shapes: per worker.
        send_counts: int64 [W, W], rows p sends to q in one exchange.
        cache: halo rows kept between epochs.
        refresh: whether it is an epoch in which all embeddings are sent.
        overlap: whether local rows are aggregated while halo rows travel.
    """

    program: Program
    placement: Placement
    shapes: tuple[WorkerShape, ...]
    send_counts: np.ndarray
    costs: dict[str, OperatorCosts]
    num_classes: int
    cache: CacheDecision = NO_CACHE
    refresh: bool = True
    overlap: bool = False
    schedule: Schedule = field(init=False)
    sent_bytes: np.ndarray = field(init=False)
    exchanges_bytes: list[np.ndarray] = field(init=False)  # [W, W] of every exchange

    def __post_init__(self) -> None:
        size = len(self.shapes)
        self.network = Network(self.placement)
        self.schedule = Schedule(size, quotas=self._quotas())
        self.sent_bytes = np.zeros(size, np.int64)
        self.exchanges_bytes = []
        self._last: list[tuple[int, ...]] = [()] * size
        self._num_groups = 0
        self._fresh = np.array(self.cache.fresh_counts or np.zeros((size, size)), np.int64)

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

    def ports_s(self) -> list[float]:
        """Seconds in which every worker's own port moves the rows that were lowered, whatever other hosts do."""
        seconds = np.zeros(len(self.shapes))
        for sent_bytes in self.exchanges_bytes:
            seconds += self.network.ports_s(sent_bytes)
        return seconds.tolist()

    def _loss(self, worker: int) -> Estimate:
        # The operator's training rows are every other one; the gradient is cleared everywhere.
        shape, cost = self.shapes[worker], self._cost(worker)
        cleared = max(0, shape.num_local - 2 * shape.num_train) * self.num_classes
        return total([cost("loss", shape.num_train, self.num_classes), cost.copy(cleared / 2)])

    def _optimizer(self, worker: int) -> Estimate:
        cost = self._cost(worker)
        return total([cost("optimizer_step", self.program.num_parameters), cost.step_overhead()])

    def _quotas(self) -> dict[int, Quota]:
        found, size = {}, len(self.shapes)
        for worker in range(size):
            profile = self.placement.profile_of(worker)
            if limit := profile.cpu_quota:
                # Nothing sets the hosts' periods to each other: they are taken to begin evenly apart.
                found[worker] = Quota(limit.share, limit.period_s, phase_s=limit.period_s * worker / size)
            elif self.overlap and profile.device_kind == "cpu":
                found[worker] = WHOLE_TIME
        return found

    def _cost(self, worker: int) -> OperatorCosts:
        return self.costs[self.placement.workers[worker].profile]

    def _forward(self, step: Step) -> None:
        if self._is_overlapped(step):
            costs = [aggregate_forward_costs(step, shape, self._cost(w)) for w, shape in enumerate(self.shapes)]
            self._fetch(step, beside=lambda: self._each(f"{step.name}/near/forward", lambda w: costs[w][0]))
            self._each(f"{step.name}/far/forward", lambda w: costs[w][1])
            return
        if step.op in ("aggregate", "exchange") and len(self.shapes) > 1:
            self._fetch(step)
        if step.op == "exchange" and len(self.shapes) == 1:
            return
        self._each(f"{step.name}/forward", lambda w: forward_cost(step, self.shapes[w], self._cost(w)))

    def _is_overlapped(self, step: Step) -> bool:
        travels = len(self.shapes) > 1 and self.cache.lets_overlap(step, refresh=self.refresh)
        return self.overlap and step.op == "aggregate" and travels

    def _backward(self, step: Step) -> None:
        if self._is_overlapped(step) and not step.constant:
            parts = [aggregate_backward_costs(step, shape, self._cost(w)) for w, shape in enumerate(self.shapes)]
            self._each(f"{step.name}/far/backward", lambda w: parts[w][1])
            self._give_back(step, beside=lambda: self._each(f"{step.name}/near/backward", lambda w: parts[w][0]))
            return
        to_halo = len(self.shapes) == 1 or self.cache.travel(step, refresh=self.refresh) != "none"
        costs = [backward_cost(step, shape, self._cost(w), to_halo=to_halo) for w, shape in enumerate(self.shapes)]
        if costs[0] is not None:
            name = step.name if to_halo or step.op != "aggregate" else f"{step.name}/local"
            self._each(f"{name}/backward", lambda w: costs[w] or ZERO)
        elif step.op == "aggregate":
            return
        if step.op in ("aggregate", "exchange") and len(self.shapes) > 1:
            self._give_back(step)

    def _fetch(self, step: Step, beside: Callable[[], None] | None = None) -> None:
        """Packs and exchanges the halo rows that travel, and puts them together with those that are kept."""
        width, travel, shares = step.in_width, self.cache.travel(step, refresh=self.refresh), self.cache.shares(step)
        if travel == "all":
            counts = self._once_a_host if shares else self.send_counts
            self._rows(f"{step.name}/pack/forward", "gather_rows", counts.sum(1), width)
            self._exchange(f"{step.name}/exchange/forward", counts, width, beside)
            if shares:
                self._fill_regions(step, counts.sum(0))
            if self._keeps_some(step) or shares:
                self._rows(f"{step.name}/keep/forward", "gather_rows", np.array(self.cache.num_rows), width)
            return
        if travel == "fresh":
            self._rows(f"{step.name}/fresh/pack/forward", "gather_rows", self._fresh.sum(1), width)
            self._exchange(f"{step.name}/fresh/exchange/forward", self._fresh, width, beside)
        if travel == "fresh" or shares:
            found = self.send_counts.sum(0) - self._fresh.sum(0) - np.array(self.cache.num_rows)
            self._each(f"{step.name}/reuse/forward", lambda w: self._put_together(w, width, int(found[w])))

    def _fill_regions(self, step: Step, received: np.ndarray) -> None:
        """Writers put their rows where their hosts' other workers read them."""
        assert self.cache.region is not None
        width, written = step.in_width, self.cache.region.written_rows
        self._each(f"{step.name}/region/write/forward", lambda w: self._cost(w).to_region(written[w], width))
        self._meet(f"{step.name}/region/meet/forward")
        found = self.send_counts.sum(0) - received
        self._each(f"{step.name}/region/read/forward", lambda w: self._put_together(w, width, int(found[w])))

    def _put_together(self, worker: int, width: int, num_found: int) -> Estimate:
        """A worker's halo, copied row by row, with the rows it finds in its host's region."""
        cost = self._cost(worker)
        return total([cost.copy(self.shapes[worker].num_halo * width), cost.from_region(num_found, width)])

    def _meet(self, key: str) -> None:
        """The workers of each host wait for each other."""
        estimate = self.network.meet()
        for host in sorted(set(self.placement.host_of)):
            for worker in (w for w, its in enumerate(self.placement.host_of) if its == host):
                task = self._task(key, worker, "communicate", estimate, resource=len(self.shapes) + worker)
                self._add(replace(task, group=self._num_groups))
            self._num_groups += 1

    def _give_back(self, step: Step, beside: Callable[[], None] | None = None) -> None:
        """Returns the gradients of the halo rows that travelled; owners add those kept of the others."""
        width, travel = step.in_width, self.cache.travel(step, refresh=self.refresh)
        if travel == "all":
            self._exchange(f"{step.name}/exchange/backward", self.send_counts.T, width, beside)
            self._rows(f"{step.name}/unpack/backward", "scatter_add_rows", self.send_counts.sum(1), width)
            if self._keeps_some(step):
                self._rows(f"{step.name}/keep/backward", "gather_rows", self._kept.sum(1), width)
            return
        if travel == "fresh":
            self._rows(f"{step.name}/fresh/pack/backward", "gather_rows", self._fresh.sum(0), width)
            self._exchange(f"{step.name}/fresh/exchange/backward", self._fresh.T, width, beside)
            self._rows(f"{step.name}/fresh/unpack/backward", "scatter_add_rows", self._fresh.sum(1), width)
        self._rows(f"{step.name}/reuse/backward", "scatter_add_rows", self._kept.sum(1), width)

    @property
    def _once_a_host(self) -> np.ndarray:
        """int64 [W, W]: rows sent where all travel and a host's workers share what one of them receives."""
        assert self.cache.region is not None
        return np.array(self.cache.region.sent_counts, np.int64)

    @property
    def _kept(self) -> np.ndarray:
        return self.send_counts - self._fresh

    def _keeps_some(self, step: Step) -> bool:
        """Whether kept rows are a part of the halo; where they are all of it, what was received is kept as it is."""
        return self.cache.keeps(step) and bool(self._fresh.any())

    def _rows(self, key: str, operator: str, num_rows: np.ndarray, width: int) -> None:
        self._each(key, lambda w: self._cost(w)(operator, int(num_rows[w]), width))

    def _reduce(self) -> None:
        if len(self.shapes) == 1:
            return
        elements = self.program.num_parameters + 1  # the loss travels with the gradients
        self._each("reduce/flatten", lambda w: self._cost(w).copy(elements))
        num_bytes = elements * FLOAT_BYTES
        self._collective("reduce", self.network.all_reduce(num_bytes), self.network.all_reduce_processor(num_bytes))
        self._each("reduce/unflatten", lambda w: Estimate(0.0, 0.0, False))

    def _exchange(self, key: str, rows: np.ndarray, width: int, beside: Callable[[], None] | None = None) -> None:
        """Adds an exchange, and tasks that are done `beside` it; what comes after waits for both."""
        sent_bytes = rows * (width * FLOAT_BYTES)
        self.sent_bytes += sent_bytes.sum(1)
        self.exchanges_bytes.append(sent_bytes)
        before = list(self._last)
        self._collective(key, self.network.all_to_all(sent_bytes), self.network.all_to_all_processor(sent_bytes))
        if beside:
            exchanged, self._last = self._last, before
            beside()
            self._last = [(*one, *other) for one, other in zip(exchanged, self._last)]

    def _collective(self, key: str, estimate: Estimate, processor: list[Estimate]) -> None:
        guess = estimate.unprofiled or any(processor[worker].unprofiled for worker in self.schedule.quotas)
        for worker, used in enumerate(processor):
            task = self._task(key, worker, "communicate", estimate, resource=len(self.shapes) + worker)
            used_s = used.seconds / self._cost(worker).profile.num_threads  # of the time that all of them have
            self._add(replace(task, unprofiled=guess, group=self._num_groups, charged=worker, processor_s=used_s))
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
            unprofiled=estimate.unprofiled or self.placement.has_other_cores(worker),
            parts=estimate.parts,
        )

    def _add(self, task: Task) -> None:
        self._last[task.worker] = (self.schedule.add(task),)


def lower_plan(plan: Plan, *, refresh: bool = True) -> Schedule:
    """The schedule of a plan's epoch, from what stands in the plan alone.

    With `refresh` false it is an epoch that reuses halo embeddings, where the plan has such epochs.
    """
    if plan.cycle is not None:
        cycle = plan.cycle.cycle()
        names = list(dict.fromkeys(cycle.order))
        return schedule_of(cycle, names[0 if refresh else -1], plan.placement)
    if plan.replicas is not None:
        from gnnplan.planner.hybrid.lowering import lower_hybrid  # which builds on this module

        return lower_hybrid(plan).lower()
    costs = {name: OperatorCosts.of(profile) for name, profile in plan.placement.profiles.items()}
    counts = np.array(plan.send_counts, dtype=np.int64)
    return FullBatchLowering(
        plan.program(),
        plan.placement,
        plan.shapes,
        counts,
        costs,
        plan.graph.num_classes,
        plan.layered.cache,
        refresh,
        plan.layered.overlap,
    ).lower()


def lower_cycle(plan: Plan) -> list[Schedule]:
    """The schedules of the epochs that a plan plays over and over, in their order; equal ones are one object."""
    order = epoch_order(plan.cycle.order if plan.cycle else (), plan.decision.cache if plan.decision else NO_CACHE)
    kinds = [lower_plan(plan, refresh=kind == 0) for kind in range(max(order) + 1)]
    return [kinds[kind] for kind in order]


def epoch_order(programs: Sequence[str], cache: CacheDecision) -> list[int]:
    """Of which kind each epoch is that is played over and over: 0 sends all rows, 1 reuses some.

    Args:
        programs: that the epochs play (empty: they are lowered layer by layer).
    """
    if programs:
        names = list(dict.fromkeys(programs))
        return [names.index(name) for name in programs]
    return [0] + [1] * (cache.refresh_interval - 1) if cache.is_stale else [0]
