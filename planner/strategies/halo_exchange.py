"""Full-batch data-parallel training with halo exchange, and the exact decisions that pay before it.

The axes decided here: partitioner, each worker's share of the graph, features dense or sparse, and per layer
the order of multiplication and aggregation, with the input features aggregated once where that is exact.
Where the job pins it, workers make some rows of their halos themselves (`gnnplan.planner.strategies.hybrid`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.decided import DecidedProgram
from gnnplan.planner.halo import Halo, build_halo, nothing_pruned
from gnnplan.planner.job import Balance, Partitioner
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.partition import partition
from gnnplan.planner.plan import Candidate, FullBatchDecision, WorkerLoad, has_program
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.simulator.bounds import Bound
from gnnplan.planner.strategies.balance import equal_shares, shares_by_speed
from gnnplan.planner.strategies.base import Decided, OnStep, Problem
from gnnplan.planner.strategies.hybrid import replicated
from gnnplan.planner.strategies.joint_cache import with_break_even
from gnnplan.planner.strategies.shares import Tried, epoch_s_of, search_shares
from gnnplan.planner.strategies.trial import Trial, feature_formats, overlap_options, with_share
from gnnplan.profiles.errors import NoPlanFitsError

_NUM_CONSIDERED = 8


@dataclass
class HaloExchangeStrategy:
    """Answers the five questions for halo exchange; keeps what is costly between them."""

    _halos: dict[str, Halo] = field(default_factory=dict)
    _matrices: dict[str, sp.csr_matrix] = field(default_factory=dict)

    def applicable(self, problem: Problem) -> str | None:
        """Always, where every worker can own a vertex."""
        if len(problem.placement.workers) > problem.graph.num_nodes:
            return f"{len(problem.placement.workers)} workers for {problem.graph.num_nodes} vertices"
        return None

    def decide(self, problem: Problem, on_step: OnStep) -> Decided:
        """Tries every partitioner and feature format; per layer takes the order with the shortest epoch."""
        tried = [entry for method in self._methods(problem) for entry in self._of_method(problem, method, on_step)]
        if problem.job.pin.dependencies == "cache" and len(problem.placement.workers) > 1:
            tried = replicated(self._matrix(problem), tried, on_step)
        tried.sort(key=epoch_s_of)
        considered = tuple(
            Candidate(summary=_summary(decision), epoch_s=epoch_s, fits=_fits(trial, decision))
            for epoch_s, trial, decision in tried[:_NUM_CONSIDERED]
        )
        for _, trial, decision in tried:
            if _fits(trial, decision):
                cache = with_break_even(trial, decision.layers, decision.cache)
                decision = decision.model_copy(update={"cache": cache})
                return Decided(decision, trial.part, considered, trial.replicated)
        raise NoPlanFitsError(_nearest_miss(tried))

    def memory(self, problem: Problem, decided: Decided) -> tuple[WorkerLoad, ...]:
        """Loads and peak bytes of each worker."""
        trial = self._decided_trial(problem, decided)
        layers, cache = decided.decision.layers, decided.decision.cache
        estimates = trial.memory(layers, cache)
        sent_bytes, reuse_sent_bytes = (_sent_bytes(trial.lowering(layers, cache, refresh=r)) for r in (True, False))
        return tuple(
            WorkerLoad(
                peak_bytes=estimates[rank].peak_bytes,
                capacity_bytes=worker.memory_bytes,
                sent_bytes=sent_bytes[rank],
                reuse_sent_bytes=reuse_sent_bytes[rank] if cache.is_stale else 0,
            )
            for rank, worker in enumerate(problem.placement.workers)
        )

    def cycle(self, problem: Problem, decided: Decided) -> Cycle | None:
        """The programs of the training with their arrays; None where the decision is lowered layer by layer."""
        if not has_program(decided.decision):
            return None
        return DecidedProgram(
            problem.job,
            decided.decision,
            problem.graph,
            self._matrix(problem),
            self.halo(problem, decided.part),
            decided.part,
            nothing_pruned(),
            self.shapes(problem, decided),
        ).cycle()

    def lower(self, problem: Problem, decided: Decided, *, refresh: bool = True) -> Schedule:
        """The tasks of one epoch; with `refresh` false of one that reuses halo embeddings."""
        trial = self._decided_trial(problem, decided)
        return trial.lowering(decided.decision.layers, decided.decision.cache, refresh=refresh).lower()

    def bound(self, problem: Problem) -> Bound:
        """The whole graph's compute split without loss over all workers, with no halo to exchange.

        Worker i needs t_i(s) for a share s; with r_i the least t_i(s) / s over shares down to
        1/(4 W), no split ends before 1 / sum(1 / r_i). Where embeddings are reused, aggregations may leave out
        the gradients of halos, at most all their work backward. Measured curves may dip between the shares
        looked at, so it bounds by the profile, not by physics; and it gives every worker rows and
        edges in the graph's own proportion, which devices of opposite strengths could depart from.
        """
        workers, pin = problem.placement.workers, problem.job.pin
        first = {worker.profile: rank for rank, worker in reversed([*enumerate(workers)])}
        rate_of = {
            profile: self._least_rate_s(problem, rank, gives_back=pin.refresh_interval == 1)
            for profile, rank in first.items()
        }
        seconds = 1.0 / sum(1.0 / rate_of[worker.profile] for worker in workers)
        return Bound(seconds, "compute of all workers, perfectly balanced")

    def shapes(self, problem: Problem, decided: Decided) -> tuple[WorkerShape, ...]:
        """The sizes of each worker's share, for the plan file."""
        return self._decided_trial(problem, decided).shapes

    def halo(self, problem: Problem, part: np.ndarray) -> Halo:
        """The halo sets of a partition, computed once."""
        key = f"{problem.job.model.kind}:{hash(part.tobytes())}"
        if key not in self._halos:
            matrix = self._matrix(problem)
            self._halos[key] = build_halo(matrix, part, int(part.max()) + 1)
        return self._halos[key]

    def _matrix(self, problem: Problem) -> sp.csr_matrix:
        kind = problem.job.model.kind
        if kind not in self._matrices:
            self._matrices[kind] = aggregation_matrix(problem.graph.num_nodes, problem.graph.edge_index, kind)
        return self._matrices[kind]

    def _trial(self, problem: Problem, part: np.ndarray, sparse: bool) -> Trial:
        return Trial(problem, part, self.halo(problem, part), sparse)

    def _decided_trial(self, problem: Problem, decided: Decided) -> Trial:
        trial = self._trial(problem, decided.part, decided.decision.sparse_features)
        return replace(trial, overlap=decided.decision.overlap, replicated=decided.replicated, _caches={})

    def _methods(self, problem: Problem) -> tuple[Partitioner, ...]:
        pinned = problem.job.pin.partitioner
        if pinned:
            return (pinned,)
        return ("metis", "ranges") if len(problem.placement.workers) > 1 else ("ranges",)

    def _of_method(self, problem: Problem, method: Partitioner, on_step: OnStep) -> list[Tried]:
        """Every share of the graph looked at, under the job's pin."""
        pinned, size = problem.job.pin.balance, len(problem.placement.workers)
        weights = equal_shares(size) if pinned == "equal" else self._shares_by_speed(problem)

        def of_shares(balance: Balance, weights: tuple[float, ...]) -> list[Tried]:
            return self._of_shares(problem, method, balance, weights, on_step)

        return search_shares(pinned, weights, of_shares)

    def _of_shares(
        self, problem: Problem, method: Partitioner, balance: Balance, weights: tuple[float, ...], on_step: OnStep
    ) -> list[Tried]:
        """Every feature format and order of operators on one partition."""
        graph, size = problem.graph, len(problem.placement.workers)
        on_step(f"partitioning into {size} ({method}, {balance} shares)")
        part = partition(graph.num_nodes, graph.edge_index, size, method, weights, seed=0)
        tried = []
        for sparse in feature_formats(problem):
            on_step(f"choosing the order of operators ({method}, {'sparse' if sparse else 'dense'} features)")
            trial = self._trial(problem, part, sparse)
            by_overlap = [replace(trial, overlap=overlap, _caches={}) for overlap in overlap_options(problem)]
            for layers in trial.descend():
                for each in by_overlap:
                    cache = each.cache(layers)
                    decision = FullBatchDecision(
                        partitioner=method,
                        target_weights=weights,
                        balance=balance,
                        layers=layers,
                        sparse_features=sparse,
                        cache=cache,
                        overlap=each.overlap,
                    )
                    tried.append((each.epoch_s(layers, cache), each, decision))
        return tried

    def _shares_by_speed(self, problem: Problem) -> tuple[float, ...]:
        names = [worker.profile for worker in problem.placement.workers]
        if len(set(names)) == 1:
            return equal_shares(len(names))
        seconds = {name: self._least_rate_s(problem, names.index(name)) for name in set(names)}
        return shares_by_speed([seconds[name] for name in names])

    def _least_rate_s(self, problem: Problem, rank: int, *, gives_back: bool = True) -> float:
        """Least seconds per whole graph, or per all its rows, at which the worker computes, over shares of it."""
        alone = replace(
            problem,
            placement=problem.placement.model_copy(update={"workers": (problem.placement.workers[rank],)}),
        )
        everything = np.zeros(problem.graph.num_nodes, np.int32)
        shares = [1.0]
        while shares[-1] > 1 / (4 * len(problem.placement.workers)):
            shares.append(shares[-1] / 2)
        rates = []
        for sparse in feature_formats(problem):
            trial = self._trial(alone, everything, sparse)
            for share in shares:
                part = with_share(trial, share, gives_back=gives_back)
                rates.append(min(part.epoch_s(layers) for layers in part.descend()) / share)
        return min(rates)


def _sent_bytes(lowering: FullBatchLowering) -> list[int]:
    lowering.lower()
    return lowering.sent_bytes.tolist()


def _fits(trial: Trial, decision: FullBatchDecision) -> bool:
    return trial.shortfall(decision.layers, decision.cache)[0] <= 0


def _summary(decision: FullBatchDecision) -> str:
    short = {"multiply_first": "A(XW)", "aggregate_first": "(AX)W"}
    orders = ", ".join("AX once" if d.precompute else short[d.op_order] for d in decision.layers)
    balance = "" if decision.balance == "speed" else f", {decision.balance} shares"
    if decision.balance == "concentrated":
        balance += f" ({sum(map(bool, decision.target_weights))} of {len(decision.target_weights)} workers)"
    features = "sparse" if decision.sparse_features else "dense"
    cache = "; halo features once" if decision.cache.keeps_any else ""
    if decision.cache.is_stale:
        cache = f"; {decision.fidelity}"
    if decision.cache.region:
        cache += ", hosts share halo rows"
    overlap = "; exchanges overlapped" if decision.overlap else ""
    words = f"{decision.partitioner}{balance}; {features} features; {orders}{cache}{overlap}"
    return f"{words}{_dependencies(decision)}"


def _dependencies(decision: FullBatchDecision) -> str:
    decided = decision.dependencies
    if not decided.replicates:
        return ""
    return f"; {decided.num_cached:,} of {decided.num_dependencies:,} dependencies cached"


def _nearest_miss(tried: list[Tried]) -> str:
    (missing, rank), trial, decision = min(
        ((trial.shortfall(decision.layers, decision.cache), trial, decision) for _, trial, decision in tried),
        key=lambda entry: entry[0],
    )
    worker = trial.problem.placement.workers[rank]
    need = trial.needs_bytes(decision.layers, decision.cache)[rank]
    return (
        f"no plan fits: the nearest, {_summary(decision)}, needs {need:,} bytes on worker {rank} "
        f"({worker.host}), which has {worker.memory_bytes:,}; {missing:,} bytes are missing: "
        f"add workers, memory, or lower the model's width"
    )
