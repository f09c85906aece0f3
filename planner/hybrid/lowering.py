"""One epoch of workers that make some rows of their halos themselves: every level has rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gnnplan.planner.costs import ZERO, OperatorCosts, backward_cost, forward_cost, total
from gnnplan.planner.hybrid.sizes import LevelSize, Replicas
from gnnplan.planner.hybrid.steps import StepLevels, step_levels
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.plan import Plan
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Step
from gnnplan.profiles.curves import Estimate


@dataclass
class HybridLowering(FullBatchLowering):
    """Lowers one epoch in which halo rows are made or fetched, each as was decided.

    Args:
        replicas: sizes of what every worker makes and fetches at each level.
    """

    replicas: Replicas = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._levels: StepLevels = step_levels(self.program, self.replicas.first)

    def _forward(self, step: Step) -> None:
        if step.op not in ("aggregate", "exchange"):
            self._each(f"{step.name}/forward", lambda w: forward_cost(step, self._shape(step, w), self._cost(w)))
            return
        counts = self.replicas.counts(self._levels.rows[step.name])
        self._rows(f"{step.name}/pack/forward", "gather_rows", counts.sum(1), step.in_width)
        self._exchange(f"{step.name}/exchange/forward", counts, step.in_width)
        self._each(f"{step.name}/forward", lambda w: self._gather(step, w, self._cost(w)))

    def _backward(self, step: Step) -> None:
        if step.op not in ("aggregate", "exchange"):
            costs = [backward_cost(step, self._shape(step, w), self._cost(w)) for w in range(len(self.shapes))]
            self._each(f"{step.name}/backward", lambda w: costs[w] or ZERO)
            return
        if step.constant:
            return
        counts = self.replicas.counts(self._levels.rows[step.name])
        self._each(f"{step.name}/backward", lambda w: self._give(step, w, self._cost(w)))
        self._exchange(f"{step.name}/exchange/backward", counts.T, step.in_width)
        self._rows(f"{step.name}/unpack/backward", "scatter_add_rows", counts.sum(1), step.in_width)

    def _shape(self, step: Step, worker: int) -> WorkerShape:
        return self.replicas.step_shape(worker, self.shapes[worker], step, self._levels)

    def _gather(self, step: Step, worker: int, cost: OperatorCosts) -> Estimate:
        """Forward: the matrices of `gnnplan.planner.hybrid.matrices`, or for an attention the rows put in its order."""
        own, size, width = self.shapes[worker], self._size(step, worker), step.in_width
        if step.op == "exchange":
            return cost.copy((own.num_local + size.num_replicas + size.num_fetched) * width)
        n, made, replicas = own.num_local, self._num_made(step, worker), size.num_replicas
        parts = [
            cost.spmm(n, own.local_edges, width, n),
            cost.spmm(n, size.near_edges, width, replicas),
            cost.spmm(made, size.made_edges, width, n + replicas),
            cost.spmm(n + made, size.far_edges, width, size.num_fetched),
        ]
        return total([*parts, *self._passed_on(step, worker, cost)])

    def _give(self, step: Step, worker: int, cost: OperatorCosts) -> Estimate:
        """Backward: their transposes."""
        own, size, width = self.shapes[worker], self._size(step, worker), step.in_width
        if step.op == "exchange":
            return cost.copy((own.num_local + size.num_replicas + size.num_fetched) * width)
        n, made, replicas = own.num_local, self._num_made(step, worker), size.num_replicas
        parts = [
            cost.spmm_transposed(n, own.local_edges, width, n),
            cost.spmm_transposed(replicas, size.near_edges, width, n),
            cost.spmm_transposed(n + replicas, size.made_edges, width, made),
            cost.spmm_transposed(size.num_fetched, size.far_edges, width, n + made),
        ]
        return total([*parts, *self._passed_on(step, worker, cost, backward=True)])

    def _passed_on(self, step: Step, worker: int, cost: OperatorCosts, *, backward: bool = False) -> list[Estimate]:
        """What a base or rows passed on cost more: a copy of them, but for own rows passed on as they are."""
        own, size, width = self.shapes[worker], self._size(step, worker), step.in_width
        found = []
        if step.base:
            found.append(cost.copy((own.num_local + (size.num_replicas if backward else 0)) * width))
        if step.keep:
            num_kept = self.replicas.num_replicas(worker, self._levels.kept[step.name])
            if num_kept or backward:
                found.append(cost("add", (own.num_local + num_kept) * width))
        return found

    def _size(self, step: Step, worker: int) -> LevelSize:
        return self.replicas.size(worker, self._levels.rows[step.name])

    def _num_made(self, step: Step, worker: int) -> int:
        return self.replicas.num_replicas(worker, self._levels.written(step))

    def _exchange(self, key: str, rows: np.ndarray, width: int, beside: Callable[[], None] | None = None) -> None:
        """Where nothing is sent at all nobody waits for anybody."""
        if rows.any():
            super()._exchange(key, rows, width, beside)
        else:
            self._each(key, lambda w: ZERO, "communicate")
            if beside:
                beside()


def lower_hybrid(plan: Plan) -> HybridLowering:
    """The lowering of a plan whose workers replicate, from what stands in the plan alone."""
    assert plan.replicas is not None
    return HybridLowering(
        plan.program(),
        plan.placement,
        plan.shapes,
        np.array(plan.send_counts, dtype=np.int64),
        {name: OperatorCosts.of(profile) for name, profile in plan.placement.profiles.items()},
        plan.graph.num_classes,
        replicas=plan.replicas,
    )
