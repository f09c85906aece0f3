"""What an epoch costs each worker as its halo shrinks: the lambda of CaPGNN's equation 15, in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.costs import FLOAT_BYTES, backward_cost, forward_cost
from planner.joint_cache.decision import NO_CACHE, CacheDecision
from planner.lowering import with_overhead_s
from planner.network import Network
from planner.program import LayerDecision, Program, Step
from planner.rapa.pairs import Loads
from planner.shapes import WorkerShape
from planner.strategies.trial import Trial
from profiles.curves import Estimate

RESERVED_BYTES = 100_000_000  # the paper's beta

Cost = Callable[[Loads], np.ndarray]
Fits = Callable[[int, Loads], bool]


@dataclass(frozen=True)
class SecondsCost:
    """Predicted seconds of one partition under one order of operators: lambda = T_comp + T_comm (equations 13 to 15).

    Both terms are seconds, so neither needs a weight: the paper's alpha weighs SpMM against MM where both
    are unitless (`planner.rapa.paper`). T_comp is every task of the worker, T_comm what its own port takes for
    its rows. Forward and backward turn a port's two directions about, so their mean counts: each halo vertex
    pruned then frees its worker as much as its owner. Rows that a cache keeps travel in some epochs only, so a step's
    exchange counts by how much of its rows an epoch sees on average, the same on every worker.
    """

    trial: Trial
    layers: tuple[LayerDecision, ...]
    cache: CacheDecision = NO_CACHE

    def __call__(self, loads: Loads) -> np.ndarray:
        """Seconds [W]."""
        return self.compute_s(loads) + self.communicate_s(loads)

    def compute_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] of every worker's own tasks in an epoch, exchanges and reduction left out."""
        shapes = [self._shape(worker, loads) for worker in self._workers]
        return self._fixed_s + [self._halo_tasks_s(w, shape, self._travelling) for w, shape in enumerate(shapes)]

    @cached_property
    def _fixed_s(self) -> np.ndarray:
        """Seconds [W] of the lowered tasks that no halo changes."""
        busy_s = np.zeros(len(self._workers))
        for task in self.trial.lowering(self.layers).lower().tasks:
            if task.category != "communicate":
                busy_s[task.worker] += task.seconds
        every_time = dict.fromkeys(self._travelling, 1.0)
        return busy_s - [self._halo_tasks_s(w, shape, every_time) for w, shape in enumerate(self.trial.shapes)]

    def _halo_tasks_s(self, worker: int, shape: WorkerShape, travelling: Mapping[str, float]) -> float:
        """Seconds of one worker's tasks that depend on the halo: priced again for every choice, the others once."""
        profile = self.trial.problem.placement.profile_of(worker)
        tasks = self._halo_tasks(worker, shape, travelling)
        return sum(share * with_overhead_s(task.seconds, profile) for share, task in tasks)

    def _halo_tasks(
        self, worker: int, shape: WorkerShape, travelling: Mapping[str, float]
    ) -> Iterator[tuple[float, Estimate]]:
        """(share of all epochs, task)."""
        cost = self.trial.costs[self.trial.problem.placement.workers[worker].profile]
        for step in self._exchanges if len(self._workers) > 1 else ():
            share = travelling[step.name]
            yield share, cost("gather_rows", shape.num_sent, step.in_width)
            if not step.constant:
                yield share, cost("scatter_add_rows", shape.num_sent, step.in_width)
        for step in self._program.steps:
            if step.op in ("aggregate", "exchange", "attend"):
                yield 1.0, forward_cost(step, shape, cost)
                if (backward := backward_cost(step, shape, cost)) is not None:
                    yield 1.0, backward

    def communicate_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] in which every worker's port alone moves the rows of an epoch."""
        num_rows = (loads.send_counts.sum(0) + loads.send_counts.sum(1)) / 2
        return np.array([self._port_s(rank, float(rows)) for rank, rows in enumerate(num_rows)])

    def _port_s(self, rank: int, num_rows: float) -> float:
        return sum(
            self._travelling[step.name]
            * (1 if step.constant else 2)
            * self._network.port_s(rank, num_rows * step.in_width * FLOAT_BYTES)
            for step in self._exchanges
        )

    @cached_property
    def _travelling(self) -> dict[str, float]:
        """By exchange: the share of its halo rows that travel in an epoch, on average."""
        counts = self.trial.halo.send_counts()
        kept_share = 1 - np.sum(self.cache.fresh_counts) / max(counts.sum(), 1) if self.cache.keeps_any else 0.0
        sent_again = 1 / self.cache.refresh_interval
        return {
            step.name: 1.0 - kept_share * (1.0 if step.fixed else 1.0 - sent_again) if self.cache.keeps(step) else 1.0
            for step in self._exchanges
        }

    def fits(self, worker: int, loads: Loads) -> bool:
        """Whether the worker's peak memory, activations included, leaves `RESERVED_BYTES` free."""
        needed = self.trial.memory_of(worker, self._program, self._shape(worker, loads)).peak_bytes
        return needed + RESERVED_BYTES <= self.trial.problem.placement.workers[worker].memory_bytes

    @cached_property
    def _program(self) -> Program:
        return self.trial.program(self.layers)

    @property
    def _workers(self) -> range:
        return range(len(self.trial.shapes))

    @cached_property
    def _network(self) -> Network:
        return Network(self.trial.problem.placement)

    @cached_property
    def _exchanges(self) -> tuple[Step, ...]:
        return tuple(step for step in self._program.steps if step.op in ("aggregate", "exchange"))

    def _shape(self, worker: int, loads: Loads) -> WorkerShape:
        return self.trial.shapes[worker].model_copy(
            update={
                "num_halo": int(loads.send_counts[:, worker].sum()),
                "num_sent": int(loads.send_counts[worker].sum()),
                "remote_edges": int(loads.remote_edges[worker]),
            }
        )
