"""What a full-batch decision does in an epoch: the techniques that it stands for, composed to a cycle of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo
from gnnplan.planner.job import Job
from gnnplan.planner.joint_cache.region import kept_halo
from gnnplan.planner.models.forward import FEATURES, Task, forward_cycle, num_levels
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.techniques.registry import technique


@dataclass(frozen=True)
class DecidedProgram:
    """A decision on a graph.

    Args:
        matrix: CSR [N, N], the model's aggregation.
        halo: of the partition, without what is pruned.
        part: int [N], the owner of every vertex.
        pruned: int [2, P], (worker, halo vertex) pairs done without.
        shapes: of the workers' shares.
    """

    job: Job
    decision: FullBatchDecision
    graph: Graph
    matrix: sp.csr_matrix
    halo: Halo
    part: np.ndarray
    pruned: np.ndarray
    shapes: tuple[WorkerShape, ...]

    def cycle(self) -> Cycle:
        """The programs of the training, with arrays."""
        job, training = self.job, self.job.training
        forward = forward_cycle(job.model, self._task(), seed=training.seed, dense_features=True)
        situation = Situation(job.model, self.halo.num_workers, (0,) * self.halo.num_workers)
        optimizer = Optimizer(training.optimizer, training.learning_rate, training.weight_decay)
        cycle = compose(forward, [*self._choices()], situation, optimizer)
        return share_equal_arrays(self._with_entries(cycle))

    def _choices(self) -> Iterator[Choice]:
        decision, orders = self.decision, self._orders()
        yield _choice("operator_order", of=orders)
        yield _choice("halo_exchange", {"part": self.part.astype(np.int32)})
        if decision.sparse_features:
            yield _choice("sparse_features")
        if self.pruned.size:
            yield _choice("pruning", {"dropped": self._at_levels(self._levels, self._pruned_of_each())})
        if decision.layers[0].precompute:
            yield _choice("first_aggregation")
        if decision.cache.keeps_any:
            yield from self._caches()
        if decision.overlap:
            yield _choice("overlap")
        if decision.partial:
            yield Choice("partial_reduce", decision.partial)

    def _caches(self) -> Iterator[Choice]:
        """What never changes is kept for good, unless it is aggregated for good; the rest from refresh to refresh."""
        cache, fixed = self.decision.cache, self._fixed_levels()
        changing = [level for level in self._levels if level not in fixed]
        if fixed and cache.keeps_features and not self.decision.layers[0].precompute:
            yield _choice("feature_cache", {"kept": self._at_levels(sorted(fixed), self._kept_of_each())})
        if changing and cache.refresh_interval > 1:
            kept = {"kept": self._at_levels(changing, self._kept_of_each())}
            yield _choice("joint_cache", kept, interval=cache.refresh_interval)

    def _orders(self) -> dict[str, str]:
        return {f"l{layer}/filter": each.op_order for layer, each in enumerate(self.decision.layers)}

    def _task(self) -> Task:
        graph, entries = self.graph, None
        if self.decision.sparse_features:
            entries = sp.csr_matrix(graph.x).getnnz(1)
        masks = (graph.train_mask, graph.val_mask, graph.test_mask)
        return Task(self.matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel)

    @property
    def _levels(self) -> range:
        return range(num_levels(self.job.model))

    def _fixed_levels(self) -> set[int]:
        """Levels whose rows are gathered of values that are the same in every epoch."""
        forward = forward_cycle(self.job.model, self._task(), seed=0, dense_features=True)
        ordered = technique("operator_order")
        hook: Any = next(iter(ordered.hooks().values()))
        forward = hook(forward, ordered.Decision(of=self._orders()), None)
        found = set()
        for name in forward.order:
            constant = constant_values(forward, forward.programs[name])
            for op in forward.programs[name]:
                space = forward.spaces[forward.values[op.reads[0]].space]
                if op.kind == "aggregate" and op.reads[0] in constant and space.level is not None:
                    found.add(space.level)
        return found

    def _pruned_of_each(self) -> list[np.ndarray]:
        return [self.pruned[1, self.pruned[0] == worker] for worker in range(self.halo.num_workers)]

    def _kept_of_each(self) -> list[np.ndarray]:
        kept = kept_halo(self.halo, self.decision.cache).kept
        return [block.halo[mask] for block, mask in zip(self.halo.blocks, kept, strict=True)]

    @staticmethod
    def _at_levels(levels: Sequence[int], of_each: Sequence[np.ndarray]) -> np.ndarray:
        """int32 [3, n]: (level, worker, vertex) of every worker's vertices, at every level."""
        rows = [
            np.stack([np.full(len(each), level), np.full(len(each), worker), np.sort(each)])
            for level in levels
            for worker, each in enumerate(of_each)
        ]
        return np.concatenate(rows, axis=1).astype(np.int32)

    def _with_entries(self, cycle: Cycle) -> Cycle:
        """Sparse features that are aggregated have as many entries as was estimated of the shares."""
        values, hop_of = dict(cycle.values), {FEATURES: 0}
        for program in cycle.programs.values():
            for op in program:
                if op.kind == "aggregate":
                    hop_of[op.writes[0]] = cycle.spaces[values[op.writes[0]].space].level or 0
        for name, hop in hop_of.items():
            if values[name].layout == "csr":
                values[name] = replace(values[name], num_entries=tuple(s.hop_entries[hop] for s in self.shapes))
        return replace(cycle, values=values)


def _choice(name: str, arrays: dict[str, np.ndarray] | None = None, **decision: Any) -> Choice:
    return Choice(name, technique(name).Decision(**decision), arrays or {})
