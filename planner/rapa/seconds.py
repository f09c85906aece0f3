"""What an epoch costs each worker as its halo shrinks: the lambda of CaPGNN's equation 15, in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.network import Network
from gnnplan.planner.rapa.halo_tasks import HaloTasks, cache_of_less, split_program
from gnnplan.planner.rapa.pairs import Loads
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, Program
from gnnplan.planner.strategies.trial import Trial

RESERVED_BYTES = 100_000_000  # the paper's beta

Cost = Callable[[Loads], np.ndarray]
Fits = Callable[[int, Loads], bool]


@dataclass(frozen=True)
class SecondsCost:
    """Predicted seconds of one partition under one order of operators: lambda = T_comp + T_comm (equations 13 to 15).

    Both terms are seconds, so neither needs a weight: the paper's alpha weighs SpMM against MM where both
    are unitless (`gnnplan.planner.rapa.paper`). T_comp is every task of the worker, T_comm what its port takes for
    its rows; where exchanges are overlapped they are added all the same. Forward and backward turn a port's two
    directions about, so their mean counts: each halo vertex pruned then frees its worker as much as its owner. Where
    rows are kept between epochs both are means over a refresh interval, and a smaller halo keeps the same share of its
    rows. (Of sparse features that are aggregated once, the entries stay those of the whole halo.)
    """

    trial: Trial
    layers: tuple[LayerDecision, ...]
    cache: CacheDecision = NO_CACHE

    def __call__(self, loads: Loads) -> np.ndarray:
        """Seconds [W]."""
        compute_s, communicate_s = self._parts_s(loads)
        return compute_s + communicate_s

    def compute_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] of every worker's own tasks in an epoch, exchanges and reduction left out."""
        return self._parts_s(loads)[0]

    def communicate_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] in which every worker's port alone moves the rows of an epoch."""
        return self._parts_s(loads)[1]

    def _parts_s(self, loads: Loads) -> tuple[np.ndarray, np.ndarray]:
        compute_s, communicate_s = self._fixed_s.copy(), np.zeros(len(self._workers))
        for share, epoch in self._kinds(loads):
            compute_s += share * epoch.busy_s
            for sent_bytes in epoch.exchanges_bytes:
                communicate_s += share * self._network.ports_s((sent_bytes + sent_bytes.T) / 2)
        return compute_s, communicate_s

    def _kinds(self, loads: Loads) -> Iterator[tuple[float, HaloTasks]]:
        """(share of all epochs, what depends on the halo in one) of epochs that refresh, and of those that reuse."""
        cache = cache_of_less(self.cache, self._whole_counts, loads.send_counts)
        often = 1 / cache.refresh_interval if cache.is_stale else 1.0
        for share, refresh in ((often, True), (1 - often, False)):
            if share:
                yield share, self._halo_tasks(loads, cache, refresh=refresh).price()

    def _halo_tasks(self, loads: Loads, cache: CacheDecision, *, refresh: bool) -> HaloTasks:
        problem = self.trial.problem
        return HaloTasks(
            self._programs[0],
            problem.placement,
            tuple(self._shape(worker, loads) for worker in self._workers),
            loads.send_counts,
            self.trial.costs,
            problem.graph.num_classes,
            cache,
            refresh,
            self.trial.overlap,
        )

    @cached_property
    def _fixed_s(self) -> np.ndarray:
        """Seconds [W] of the lowered tasks that no halo changes, the same in every epoch."""
        problem, busy_s = self.trial.problem, np.zeros(len(self._workers))
        lowering = FullBatchLowering(
            self._programs[1],
            problem.placement,
            self.trial.shapes,
            self._whole_counts,
            self.trial.costs,
            problem.graph.num_classes,
        )
        for task in lowering.lower().tasks:
            if task.category != "communicate":
                busy_s[task.worker] += task.seconds
        return busy_s

    def fits(self, worker: int, loads: Loads) -> bool:
        """Whether the worker's peak memory, activations included, leaves `RESERVED_BYTES` free."""
        needed = self.trial.memory_of(worker, self._program, self._shape(worker, loads)).peak_bytes
        return needed + RESERVED_BYTES <= self.trial.problem.placement.workers[worker].memory_bytes

    @cached_property
    def _program(self) -> Program:
        return self.trial.program(self.layers)

    @cached_property
    def _programs(self) -> tuple[Program, Program]:
        return split_program(self._program)

    @cached_property
    def _whole_counts(self) -> np.ndarray:
        return self.trial.halo.send_counts()

    @property
    def _workers(self) -> range:
        return range(len(self.trial.shapes))

    @cached_property
    def _network(self) -> Network:
        return Network(self.trial.problem.placement)

    def _shape(self, worker: int, loads: Loads) -> WorkerShape:
        return self.trial.shapes[worker].model_copy(
            update={
                "num_halo": int(loads.send_counts[:, worker].sum()),
                "num_sent": int(loads.send_counts[worker].sum()),
                "remote_edges": int(loads.remote_edges[worker]),
            }
        )
