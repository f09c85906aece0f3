"""The search: over the workers that take part, and for each set of them over all techniques."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.considered import EndedBy
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Memo, Setting
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.losses import loss_of
from gnnplan.planner.metrics import metric_of
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.objective.spec import ObjectiveFigures
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.cost import costs_of
from gnnplan.planner.relations import AnyAggregation, any_matrix, combined
from gnnplan.planner.search.certificate import searched_bound
from gnnplan.planner.search.descent import Descent
from gnnplan.planner.search.evaluate import IsOver, compose_candidate, has_pinned
from gnnplan.planner.search.least import Least
from gnnplan.planner.search.least import rates_s as rates_of
from gnnplan.planner.search.objective import Judge, Leasts, Scored, refuse
from gnnplan.planner.search.pins import no_plan_under
from gnnplan.planner.search.stop import Stop
from gnnplan.planner.search.workers import Subsets, subsets
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.weather.model import MarkovWeather
from gnnplan.profiles.errors import NoPlanFitsError, PinnedOutError, UserError

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Args:
        best: of all that fit.
        looked_at: every candidate, of all settings.
        alone: every candidate of one worker that has the whole graph, of each profile.
        bound: no plan of any set of workers is faster.
        searched: no plan that is made, layer by layer, of what the search looked at is faster.
        num_sets: of workers that could take part; `num_passed_over` of them are bounded above the best, and `num_left`
            were not looked at, for the search ended.
        ended_by: what ended it, if it could have gone on.
        objective: what the best comes to by the job's objective (None of a plain one).
    """

    best: Candidate
    looked_at: Sequence[Candidate]
    alone: Sequence[Candidate]
    bound: Bound
    searched: Bound
    num_sets: int
    num_passed_over: int
    num_left: int = 0
    ended_by: EndedBy = ""
    objective: ObjectiveFigures | None = None


def decide(
    job: Job, placement: Placement, graph: Graph, on_step: OnStep = lambda _: None, share_of_time: float = 1.0
) -> Found:
    """The best plan by simulation that fits, on any of the workers: the fastest, or by the job's objective.

    Args:
        share_of_time: of the seconds that the job gives to searches, this one's.

    Raises:
        UserError: the job cannot run on the cluster at all.
        NoPlanFitsError: every decision needs more memory than some worker has, or goes over a limit of the objective.
    """
    if job.pin.num_workers:
        placement = placement.take(job.pin.num_workers)
    if len(placement.workers) > graph.num_nodes:
        raise UserError(f"{job.name}: {len(placement.workers)} workers for {graph.num_nodes} vertices; leave some out")
    if (described := _num_described(job)) not in (None, len(placement.workers)):
        raise UserError(
            f"{job.name}: training.weather describes {described} workers, and there are {len(placement.workers)}; fit "
            f"it again, or pin num_workers"
        )
    return _Search(job, placement, graph, on_step, Stop(job.search, share_of_time)).run()


def setting_of(job: Job, placement: Placement, graph: Graph, rates_s: Sequence[float] = (), memo: Memo | None = None):
    """A job on a graph with all workers of a placement.

    Args:
        rates_s: of each worker (none given: all alike).
    """
    matrix, forward = forward_of(job, graph)
    rates_s = tuple(rates_s) or (1.0,) * len(placement.workers)
    return Setting(job, graph, matrix, forward, placement, rates_s, costs_of(placement), memo or Memo())


def forward_of(job: Job, graph: Graph) -> tuple[sp.csr_matrix, Cycle]:
    """A model's aggregation, of several the one with most entries (types of edges together), and its forward programs.

    Raises `UserError` where a module has parts that no operators are known for.
    """
    model, seed = job.model, job.training.seed

    @cache
    def matrix_of(kind: AnyAggregation) -> sp.csr_matrix:
        return any_matrix(graph.num_nodes, graph.edge_index, kind, graph.edge_values)

    if model.kind != "module":
        task = _task(job, graph, matrix_of(model.kind))
        return task.matrix, forward_cycle(model, task, seed=seed, dense_features=True)
    from gnnplan.planner.models.module_forward import check_float32, module_cycle

    task = _task(job, graph, sp.csr_matrix((graph.num_nodes, graph.num_nodes), dtype=np.float32))
    module = module_of(model, graph.num_features, graph.num_classes, seed)
    check_float32(module)
    forward, used = module_cycle(module, task, matrix_of, seed=seed, dense_features=True)
    found = combined({kind: _weights(matrix) for kind, matrix in used.items()})
    return task.matrix if found is None else found, forward


def _weights(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """An aggregation as weights of edges: of numbers of edges, ones."""
    if matrix.dtype == np.float32:
        return matrix
    return sp.csr_matrix((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), matrix.shape)


def _task(job: Job, graph: Graph, matrix: sp.csr_matrix) -> Task:
    is_sparse = graph.has_sparse_features or bool(job.pin.sparse_features)
    entries = sp.csr_matrix(graph.x).getnnz(1) if is_sparse else None
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    training = job.training
    if training.is_supervised and not graph.val_mask.any():
        raise UserError(f"{graph.name}: early stopping and schedule 'plateau' need validation vertices; give a split")
    return Task(
        matrix,
        graph.num_features,
        graph.num_classes,
        masks,
        entries,
        graph.is_multilabel,
        graph.edge_values,
        loss_of(training.loss, graph),
        training.loss_sha256,
        metric_of(training.metric, training.loss, graph),
        graph.pairs,
    )


@dataclass
class _Search:
    job: Job
    placement: Placement
    graph: Graph
    on_step: OnStep
    stop: Stop
    _looked_at: list[Candidate] = field(default_factory=list)

    def run(self) -> Found:
        base = setting_of(self.job, self.placement, self.graph)
        alone = self._alone(base)
        rates_s, least = rates_of(self.placement, alone), Least.of(base, alone)
        judge, best, of_set = Judge(self.job), None, dict[tuple[WorkerPlace, ...], Bound]()
        sets = self._sets(rates_s)
        leasts: Leasts = [(least, sets.ranks, self.placement)]
        for place in () if _num_described(self.job) else self.placement.hosts_as_one():
            found, least_alone = self._as_one(replace(base, placement=place, rates_s=(1.0,)))
            leasts.append((least_alone, [(0,)], place))
            of_set[place.workers] = least_alone.bound([(0,)])
            best = found if best is None or found.order < best.order else best
        num_left, pinned_out, has_several = 0, None, False
        for ranks in sets.ranks:
            to_beat_s = judge.limit_s(best, self.placement.of(ranks).price_per_hour)
            shortest_s = judge.least_epoch_s(least, ranks)
            if shortest_s >= to_beat_s:
                continue
            of_set[self.placement.of(ranks).workers] = least.bound([ranks])
            if self.stop.is_over(to_beat_s, shortest_s):
                num_left += 1
                continue
            limit_s = judge.to_search_s(best, to_beat_s)
            try:
                found = self._on(base, ranks, [rates_s[rank] for rank in ranks], best, limit_s, shortest_s)
            except PinnedOutError as error:  # others may have what is pinned
                of_set.pop(self.placement.of(ranks).workers)
                pinned_out = pinned_out or error
                continue
            has_several |= len(ranks) > 1
            best = found if best is None or found.order < best.order else best
        if best is None or (pinned_out and not has_several):  # one worker has all that is pinned
            raise pinned_out or PinnedOutError(no_plan_under(self.job))
        of_one = [each for of in alone.values() for each in of]
        told = replace(self._told(best, of_one, leasts, of_set), num_left=num_left)
        if sets.are_all:
            return told
        return replace(told, bound=min(told.bound, least.bound_of_any(), key=lambda each: each.seconds))

    def _told(
        self, best: Scored, of_one: Sequence[Candidate], leasts: Leasts, of_set: dict[tuple[WorkerPlace, ...], Bound]
    ) -> Found:
        """What the search came to, with its bounds; raises where the best fits nowhere, or goes over a limit."""
        judge = Judge(self.job)
        if not has_pinned(best.candidate):
            raise PinnedOutError(no_plan_under(self.job))
        if not best.candidate.fits:
            raise NoPlanFitsError(_nearest_miss(best.candidate))
        refuse(best, self.job, judge.epochs, judge.statistic)
        chosen = _settled(best.candidate)
        bound = min((each.bound(of) for each, of, _ in leasts), key=lambda each: each.seconds)
        searched = searched_bound([*self._looked_at, chosen], of_set)
        objective = judge.figures(chosen, judge.least(leasts))
        num_sets = sum(len(of) for _, of, _ in leasts)
        return Found(
            chosen,
            self._looked_at,
            of_one,
            bound,
            searched,
            num_sets,
            num_passed_over=num_sets - len(of_set),
            ended_by=self.stop.ended_by,
            objective=objective,
        )

    def _over_at(self, least_s: float) -> IsOver:
        """Whether workers that could not take less than this are looked at no further."""
        return lambda epoch_s: self.stop.is_over(epoch_s, least_s)

    @property
    def _workers(self):
        return self.placement.workers

    def _sets(self, rates_s: Sequence[float]) -> Subsets:
        if self.job.pin.num_workers or _num_described(self.job):
            return Subsets((tuple(range(len(self._workers))),))
        found = subsets(self.placement, rates_s, by_price=self.job.objective.asks_for_prices)
        # Single workers, last among these, are soon searched. Where one is hard to beat, larger sets are soon left.
        return replace(found, ranks=tuple(sorted(found.ranks, key=lambda ranks: len(ranks) > 1)))

    def _alone(self, base: Setting) -> dict[str, list[Candidate]]:
        """By profile every candidate of one worker that has all the graph, whether it fits or not.

        Bounds are made of them, so they are looked at however little time there is.
        """
        found: dict[str, list[Candidate]] = {}
        for rank, worker in enumerate(self._workers):
            if worker.profile not in found:
                self.on_step(f"choosing operators for {worker.host} alone")
                descent = Descent(_of_workers(base, (rank,), (1.0,)))
                descent.run()
                found[worker.profile] = list(descent.evaluator.looked_at())
        return found

    def _as_one(self, setting: Setting) -> tuple[Scored, Least]:
        """The best on one worker that stands for all of a host, and the bound of any plan there, however late."""
        (worker,) = setting.placement.workers
        self.on_step(f"choosing for {worker.host} as one worker")
        scored, looked_at = self._found(Descent(setting), ())
        return scored, Least.of(setting, {worker.profile: looked_at})

    def _on(
        self,
        base: Setting,
        ranks: Sequence[int],
        rates_s: list[float],
        best: Scored | None,
        to_beat_s: float,
        least_s: float,
    ) -> Scored:
        """The best on some of the workers, from where the best so far stands."""
        names = ", ".join(dict.fromkeys(self._workers[rank].host for rank in ranks))
        self.on_step(f"choosing for {len(ranks)} worker(s) on {names}")
        setting = _of_workers(base, ranks, tuple(rates_s))
        descent = Descent(setting, self._over_at(least_s), Judge(self.job).keeps_limits)
        return self._found(descent, best.candidate.choices if best else (), to_beat_s)[0]

    def _found(
        self, descent: Descent, start: Sequence[Choice], to_beat_s: float = math.inf
    ) -> tuple[Scored, list[Candidate]]:
        """The best that a descent comes to by the objective, and all that it looked at."""
        judge, found = Judge(self.job), descent.run(start, to_beat_s)
        looked_at = list(descent.evaluator.looked_at())
        self._looked_at += looked_at
        finalists = judge.finalists(found, looked_at)
        weighed = finalists
        if self.job.training.weather is not None:  # there it counts what is settled, which suits these workers alone
            weighed = [_settled(descent.evaluator.whole(each)) for each in finalists]
        scored = judge.best(weighed)
        (chosen,) = (one for one, other in zip(finalists, weighed, strict=True) if other is scored.candidate)
        return replace(scored, candidate=descent.evaluator.whole(chosen)), looked_at


def _of_workers(base: Setting, ranks: Sequence[int], rates_s: tuple[float, ...]) -> Setting:
    placement = base.placement.of(ranks)
    return replace(base, placement=placement, rates_s=rates_s, costs=costs_of(placement, base.costs))


def _num_described(job: Job) -> int | None:
    """Workers that the job's weather describes one by one, who all take part (None: it is of any number)."""
    weather = job.training.weather
    return len(weather.workers) if isinstance(weather, MarkovWeather) else None


def _settled(best: Candidate) -> Candidate:
    """The best with what its techniques decide last."""
    choices = tuple(technique(choice.technique).settled(choice, best) for choice in best.choices)
    is_same = all(new is old for new, old in zip(choices, best.choices, strict=True))
    return best if is_same else compose_candidate(best.setting, choices)


def _nearest_miss(nearest: Candidate) -> str:
    rank = int(np.argmax(nearest.missing_bytes))
    worker, missing = nearest.setting.placement.workers[rank], int(nearest.missing_bytes[rank])
    has, memory = nearest.setting.memory_bytes(rank), nearest.memory[rank]
    if memory.peak_bytes - has < missing:  # a worker has room, and its host has not
        is_region = memory.region_bytes - worker.region_bytes == missing
        key = "region_bytes" if is_region else "pinned_bytes"
        of_host = getattr(worker, key) or 0
        return (
            f"no plan fits: the nearest needs {of_host + missing:,} bytes of host {worker.host}, whose {key} is "
            f"{of_host:,}; {missing:,} bytes are missing: raise {key}, add hosts, or lower the model's width"
        )
    margin = "" if has == worker.memory_bytes else " beside the margin that stays free"
    return (
        f"no plan fits: the nearest needs {has + missing:,} bytes on worker {rank} "
        f"({worker.host}), which has {has:,}{margin}; {missing:,} bytes are missing: "
        f"add workers, memory, or lower the model's width"
    )
