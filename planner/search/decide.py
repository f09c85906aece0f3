"""The search: over the workers that take part, and for each set of them over all techniques."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Memo, Setting
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.program.cycle import Program
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs_of
from gnnplan.planner.readers.scaled import on_columns, on_share
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.search.descent import Descent, is_better
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.search.workers import subsets
from gnnplan.planner.simulator.bounds import Bound
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Args:
        best: of all that fit.
        looked_at: every candidate, of all settings.
        bound: no plan of all the workers is faster.
    """

    best: Candidate
    looked_at: Sequence[Candidate]
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
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, job.model.kind)
    forward = _forward(job, graph, matrix)
    rates_s = tuple(rates_s) or (1.0,) * len(placement.workers)
    return Setting(job, graph, matrix, forward, placement, rates_s, costs_of(placement), memo or Memo())


def _forward(job: Job, graph: Graph, matrix: sp.csr_matrix):
    is_sparse = graph.has_sparse_features or bool(job.pin.sparse_features)
    entries = sp.csr_matrix(graph.x).getnnz(1) if is_sparse else None
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    task = Task(matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel)
    return forward_cycle(job.model, task, seed=job.training.seed, dense_features=True)


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
        rates_s, bounds_s = (self._rates_s(alone, bare=bare) for bare in (False, True))
        best: Candidate | None = None
        for ranks in self._sets(rates_s):
            least_s = _together_s(bounds_s[rank] for rank in ranks)
            if best and best.fits and least_s >= best.epoch_s:
                continue  # its work alone takes longer, shared out without loss
            found = self._on(base, ranks, [rates_s[rank] for rank in ranks], best)
            best = found if is_better(found, best) else best
        assert best
        if not best.fits:
            raise NoPlanFitsError(_nearest_miss(best))
        bound = Bound(_together_s(bounds_s), "compute of all workers, perfectly balanced")
        return Found(_settled(best), self._looked_at, bound)

    def _rates_s(self, alone: Mapping[str, Sequence[Candidate]], *, bare: bool) -> list[float]:
        """Of every worker the least seconds per whole graph.

        Args:
            bare: for a bound, so without what a plan may leave out: where edges may be, all sums over them; where rows
                are reused, sums backward.
        """
        frees = _left_out(self.job) if bare else _nothing
        rate_of = {profile: _least_rate_s(each, len(self._workers), frees) for profile, each in alone.items()}
        return [rate_of[worker.profile] for worker in self._workers]

    @property
    def _workers(self):
        return self.placement.workers

    def _sets(self, rates_s: Sequence[float]) -> Iterable[tuple[int, ...]]:
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


def _together_s(rates_s: Iterable[float]) -> float:
    """Seconds in which workers of these rates work through the graph, if each has its part without loss."""
    return 1 / sum(1 / rate_s for rate_s in rates_s)


def _nothing(op: Operator) -> bool:
    return False


def _left_out(job: Job) -> Callable[[Operator], bool]:
    """Which operators a plan of a job may leave out, at most."""
    if job.pin.prune != "none":
        return lambda op: "block" in op.attributes or "blocks" in op.attributes
    if job.pin.refresh_interval > 1:
        return lambda op: "block" in op.attributes and bool(op.attributes.get("back"))
    return _nothing


def _least_rate_s(alone: Sequence[Candidate], num_workers: int, frees: Callable[[Operator], bool]) -> float:
    """Least seconds per whole graph at which a worker works through a share of it, over shares and choices.

    Args:
        frees: operators that take no time.
    """
    shares = [1.0]
    while shares[-1] > 1 / (4 * num_workers):
        shares.append(shares[-1] / 2)
    return min(_share_s(candidate, share, frees) / share for candidate in alone for share in shares)


def _share_s(candidate: Candidate, share: float, frees: Callable[[Operator], bool]) -> float:
    """Simulated seconds of an epoch of one worker on a share of the graph that has no halo.

    What sums over edges takes the less of two: a share of the edges, or all of them for a share of the columns.
    """
    setting, seconds = candidate.setting, 0.0
    by_rows, by_columns = on_share(candidate.cycle, share), on_columns(candidate.cycle, share)
    for name, of_all in candidate.shares.items():
        over_rows, over_columns = (
            schedule_of(cycle, name, setting.placement, setting.costs) for cycle in (by_rows, by_columns)
        )
        schedule = _least(over_rows, over_columns, by_rows.programs[name], frees)
        seconds += of_all * play_epochs(schedule).median_epoch_s
    return seconds


def _least(
    over_rows: Schedule, over_columns: Schedule, program: Program, frees: Callable[[Operator], bool]
) -> Schedule:
    """The first schedule, in which sums over edges take no longer than in the second, and some operators no time."""
    free = {op.key for op in program if frees(op)}
    sums = {op.key for op in program if "block" in op.attributes}
    tasks = []
    for task, sliced in zip(over_rows.tasks, over_columns.tasks, strict=True):
        least_s = min(task.seconds, sliced.seconds) if task.key in sums else task.seconds
        tasks.append(replace(task, seconds=0.0 if task.key in free else least_s))
    return Schedule(over_rows.num_workers, tasks, over_rows.quotas)


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
