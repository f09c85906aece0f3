"""What a full-batch decision does in an epoch: the cycle of its programs, with the arrays that workers need."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo
from gnnplan.planner.job import Job
from gnnplan.planner.joint_cache.region import kept_halo
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.program.constant import constant_values, hoist_constants
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges


def has_program(job: Job, decision: FullBatchDecision) -> bool:
    """Whether a decision is written as an explicit program. The others are still lowered layer by layer."""
    is_plain = job.pin.partial_reduce is None and not decision.dependencies.replicates and not decision.cache.region
    # Attention's operators over edges are not profiled one by one yet.
    return is_plain and job.model.kind != "gat" and job.training.weather is None


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
        decision, training = self.decision, self.job.training
        cycle = forward_cycle(self.job.model, self._task(), seed=training.seed)
        cycle = expand_filters(cycle, {f"l{k}/filter": each.op_order for k, each in enumerate(decision.layers)})
        cycle = share_rows(cycle, self.part, self.halo.num_workers, self._labels(cycle))
        cycle = self._with_entries(split_placed(cycle))
        if decision.layers[0].precompute:
            cycle = hoist_constants(cycle)
        if decision.cache.keeps_features:
            cycle = hoist_constants(cycle, _is_kept)
        optimizer = Optimizer(training.optimizer, training.learning_rate, training.weight_decay)
        cycle = differentiate(cycle, optimizer)
        if decision.cache.is_stale:
            cycle = refresh_every(cycle, decision.cache.refresh_interval)
        cycle = reuse_storage(cycle)
        return share_equal_arrays(overlap_exchanges(cycle) if decision.overlap else cycle)

    def _task(self) -> Task:
        graph, entries = self.graph, None
        if self.decision.sparse_features:
            entries = sp.csr_matrix(graph.x).getnnz(1)
        masks = (graph.train_mask, graph.val_mask, graph.test_mask)
        return Task(self.matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel)

    def _labels(self, forward: Cycle) -> Labels:
        labels, cache = Labels(), self.decision.cache
        fixed = _constant_levels(forward)
        for level in range(num_levels(self.job.model)):
            for worker, vertex in enumerate(self._pruned_of_each()):
                labels = labels.marked(level, worker, vertex, Label.DROPPED)
            is_kept = cache.keeps_features if level in fixed else cache.refresh_interval > 1
            if not (cache.keeps_any and is_kept):
                continue
            kept = kept_halo(self.halo, cache).kept
            for worker, (block, mask) in enumerate(zip(self.halo.blocks, kept, strict=True)):
                labels = labels.marked(level, worker, np.sort(block.halo[mask]), Label.KEPT)
        return labels

    def _pruned_of_each(self) -> list[np.ndarray]:
        return [np.sort(self.pruned[1, self.pruned[0] == w]).astype(np.int64) for w in range(self.halo.num_workers)]

    def _with_entries(self, cycle: Cycle) -> Cycle:
        """Sparse features that are aggregated have as many entries as was estimated of the shares."""
        values, hop_of = dict(cycle.values), {"x": 0}
        for program in cycle.programs.values():
            for op in program:
                if op.kind != "aggregate" or values[op.writes[0]].layout != "csr":
                    continue
                level = cycle.spaces[values[op.writes[0]].space].level
                assert level is not None
                hop_of[op.writes[0]] = level
        for name, hop in hop_of.items():
            if name in values and values[name].layout == "csr":
                values[name] = replace(values[name], num_entries=tuple(s.hop_entries[hop] for s in self.shapes))
        return replace(cycle, values=values)


def _is_kept(op: Operator) -> bool:
    return op.kind == "exchange" and op.attributes.get("label") == "kept"


def _constant_levels(forward: Cycle) -> set[int]:
    """Levels whose rows are gathered of values that are the same in every epoch."""
    found = set()
    for name in forward.order:
        constant = constant_values(forward, forward.programs[name])
        for op in forward.programs[name]:
            space = forward.spaces[forward.values[op.reads[0]].space]
            if op.kind == "aggregate" and op.reads[0] in constant and space.level is not None:
                found.add(space.level)
    return found
