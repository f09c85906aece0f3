"""The search: over the workers that take part, and for each set of them over all techniques."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import Aggregation, aggregation_matrix
from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Memo, Setting
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.cost import costs_of
from gnnplan.planner.search.descent import Descent, is_better
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.search.least import Least
from gnnplan.planner.search.least import rates_s as rates_of
from gnnplan.planner.search.workers import subsets
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Args:
        best: of all that fit.
        looked_at: every candidate, of all settings.
        alone: every candidate of one worker that has the whole graph, of each profile.
        bound: no plan of any set of workers that was searched is faster.
    """

    best: Candidate
    looked_at: Sequence[Candidate]
    alone: Sequence[Candidate]
    bound: Bound


def decide(job: Job, placement: Placement, graph: Graph, on_step: OnStep = lambda _: None) -> Found:
    """The fastest plan by simulation that fits, over any of the workers.

    Raises:
        UserError: the job cannot run on the cluster at all.
        NoPlanFitsError: every decision needs more memory than some worker has.
    """
    if job.pin.num_workers:
        placement = placement.take(job.pin.num_workers)
    if len(placement.workers) > graph.num_nodes:
        raise UserError(f"{job.name}: {len(placement.workers)} workers for {graph.num_nodes} vertices; leave some out")
    return _Search(job, placement, graph, on_step).run()


def setting_of(job: Job, placement: Placement, graph: Graph, rates_s: Sequence[float] = (), memo: Memo | None = None):
    """A job on a graph with all workers of a placement.

    Args:
        rates_s: of each worker (none given: all alike).
    """
    matrix, forward = forward_of(job, graph)
    rates_s = tuple(rates_s) or (1.0,) * len(placement.workers)
    return Setting(job, graph, matrix, forward, placement, rates_s, costs_of(placement), memo or Memo())


def forward_of(job: Job, graph: Graph) -> tuple[sp.csr_matrix, Cycle]:
    """A model's aggregation, of several the one with most entries, and its forward programs.

    Raises `UserError` where a module has parts that no operators are known for.
    """
    model, seed = job.model, job.training.seed

    @cache
    def matrix_of(kind: Aggregation) -> sp.csr_matrix:
        return aggregation_matrix(graph.num_nodes, graph.edge_index, kind)

    if model.kind != "module":
        task = _task(job, graph, matrix_of(model.kind))
        return task.matrix, forward_cycle(model, task, seed=seed, dense_features=True)
    from gnnplan.planner.models.module_forward import module_cycle

    task = _task(job, graph, sp.csr_matrix((graph.num_nodes, graph.num_nodes), dtype=np.float32))
    module = module_of(model, graph.num_features, graph.num_classes, seed)
    forward, used = module_cycle(module, task, matrix_of, seed=seed, dense_features=True)
    return max(used.values(), key=lambda matrix: matrix.nnz, default=task.matrix), forward


def _task(job: Job, graph: Graph, matrix: sp.csr_matrix) -> Task:
    is_sparse = graph.has_sparse_features or bool(job.pin.sparse_features)
    entries = sp.csr_matrix(graph.x).getnnz(1) if is_sparse else None
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    return Task(matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel)


@dataclass
class _Search:
    job: Job
    placement: Placement
    graph: Graph
    on_step: OnStep
    _looked_at: list[Candidate] = field(default_factory=list)

    def run(self) -> Found:
        base = setting_of(self.job, self.placement, self.graph)
        alone = self._alone(base)
        rates_s, least = rates_of(self.placement, alone), Least.of(base, alone)
        best: Candidate | None = None
        sets = self._sets(rates_s)
        for ranks in sets:
            if best and best.fits and least.seconds(ranks) >= best.epoch_s:
                continue
            found = self._on(base, ranks, [rates_s[rank] for rank in ranks], best)
            best = found if is_better(found, best) else best
        assert best
        if not best.fits:
            raise NoPlanFitsError(_nearest_miss(best))
        of_one = [each for of in alone.values() for each in of]
        return Found(_settled(best), self._looked_at, of_one, least.bound(sets))

    @property
    def _workers(self):
        return self.placement.workers

    def _sets(self, rates_s: Sequence[float]) -> list[tuple[int, ...]]:
        if self.job.pin.num_workers:
            return [tuple(range(len(self._workers)))]
        return subsets(self.placement, rates_s)

    def _alone(self, base: Setting) -> dict[str, list[Candidate]]:
        """By profile every candidate of one worker that has all the graph, whether it fits or not."""
        found: dict[str, list[Candidate]] = {}
        for rank, worker in enumerate(self._workers):
            if worker.profile not in found:
                self.on_step(f"choosing operators for {worker.host} alone")
                descent = Descent(_of_workers(base, (rank,), (1.0,)))
                descent.run()
                found[worker.profile] = list(descent.evaluator.looked_at())
        return found

    def _on(self, base: Setting, ranks: tuple[int, ...], rates_s: list[float], best: Candidate | None) -> Candidate:
        """The best on some of the workers, from where the best so far stands."""
        names = ", ".join(dict.fromkeys(self._workers[rank].host for rank in ranks))
        self.on_step(f"choosing for {len(ranks)} worker(s) on {names}")
        descent = Descent(_of_workers(base, ranks, tuple(rates_s)))
        found = descent.run(best.choices if best else (), best)
        self._looked_at += descent.evaluator.looked_at()
        return found


def _of_workers(base: Setting, ranks: Sequence[int], rates_s: tuple[float, ...]) -> Setting:
    return replace(base, placement=base.placement.of(ranks), rates_s=rates_s)


def _settled(best: Candidate) -> Candidate:
    """The best with what its techniques decide last."""
    choices = tuple(technique(choice.technique).settled(choice, best) for choice in best.choices)
    is_same = all(new is old for new, old in zip(choices, best.choices, strict=True))
    return best if is_same else compose_candidate(best.setting, choices)


def _nearest_miss(nearest: Candidate) -> str:
    rank = int(np.argmax(nearest.missing_bytes))
    worker, missing = nearest.setting.placement.workers[rank], int(nearest.missing_bytes[rank])
    return (
        f"no plan fits: the nearest needs {worker.memory_bytes + missing:,} bytes on worker {rank} "
        f"({worker.host}), which has {worker.memory_bytes:,}; {missing:,} bytes are missing: "
        f"add workers, memory, or lower the model's width"
    )
