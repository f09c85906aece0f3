"""Full-batch data-parallel training with halo exchange, and the exact decisions that pay before it.

The axes decided here: partitioner, features dense or sparse, and per layer the order of
multiplication and aggregation, with the input features aggregated once where that is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from planner.adjacency import aggregation_matrix
from planner.costs import OperatorCosts
from planner.halo import Halo, build_halo
from planner.job import Partitioner
from planner.lowering import FullBatchLowering
from planner.memory import MemoryEstimate, estimate_memory
from planner.partition import partition
from planner.plan import Candidate, FullBatchDecision, WorkerLoad
from planner.program import LayerDecision, Program, build_program, num_hops
from planner.schedule import Schedule
from planner.shapes import WorkerShape, worker_shapes
from planner.simulator.bounds import Bound
from planner.simulator.steady import play_epochs
from planner.strategies.base import Decided, OnStep, Problem
from planner.strategies.op_order import layer_options
from profiles.errors import NoPlanFitsError, UserError

_NUM_CONSIDERED = 8


@dataclass
class HaloExchangeStrategy:
    """Answers the five questions for halo exchange; keeps what is costly between them."""

    _halos: dict[str, Halo] = field(default_factory=dict)
    _matrices: dict[str, object] = field(default_factory=dict)

    def applicable(self, problem: Problem) -> str | None:
        """Always, where every worker can own a vertex."""
        if len(problem.placement.workers) > problem.graph.num_nodes:
            return f"{len(problem.placement.workers)} workers for {problem.graph.num_nodes} vertices"
        return None

    def decide(self, problem: Problem, on_step: OnStep) -> Decided:
        """Tries every partitioner and feature format; per layer takes the order with the shortest epoch."""
        tried: list[tuple[float, _Trial, FullBatchDecision]] = []
        for part, partitioner, weights in self._partitions(problem, on_step):
            for sparse in _feature_formats(problem):
                on_step(f"choosing the order of operators ({partitioner}, {'sparse' if sparse else 'dense'} features)")
                trial = self._trial(problem, part, sparse)
                for layers in trial.descend():
                    decision = FullBatchDecision(
                        partitioner=partitioner, target_weights=weights, layers=layers, sparse_features=sparse
                    )
                    tried.append((trial.epoch_s(layers), trial, decision))
        tried.sort(key=lambda entry: entry[0])
        considered = tuple(
            Candidate(summary=_summary(decision), epoch_s=epoch_s, fits=trial.shortfall(decision.layers)[0] <= 0)
            for epoch_s, trial, decision in tried[:_NUM_CONSIDERED]
        )
        for _, trial, decision in tried:
            if trial.shortfall(decision.layers)[0] <= 0:
                return Decided(decision, trial.part, considered)
        raise NoPlanFitsError(_nearest_miss(tried))

    def memory(self, problem: Problem, decided: Decided) -> tuple[WorkerLoad, ...]:
        """Loads and peak bytes of each worker."""
        trial = self._trial(problem, decided.part, decided.decision.sparse_features)
        lowering = trial.lowering(decided.decision.layers)
        lowering.lower()
        estimates = trial.memory(decided.decision.layers)
        return tuple(
            WorkerLoad(
                peak_bytes=estimates[rank].peak_bytes,
                capacity_bytes=worker.memory_bytes,
                sent_bytes=int(lowering.sent_bytes[rank]),
            )
            for rank, worker in enumerate(problem.placement.workers)
        )

    def lower(self, problem: Problem, decided: Decided) -> Schedule:
        """The tasks of one epoch."""
        trial = self._trial(problem, decided.part, decided.decision.sparse_features)
        return trial.lowering(decided.decision.layers).lower()

    def bound(self, problem: Problem) -> Bound:
        """The whole graph's compute split without loss over all workers, with no halo to exchange.

        Worker i needs t_i(s) for a share s; with r_i the least t_i(s) / s over shares down to
        1/(4 W), no split ends before 1 / sum(1 / r_i). Measured curves may dip between the shares
        looked at, so it bounds by the profile, not by physics; and it gives every worker rows and
        edges in the graph's own proportion, which devices of opposite strengths could depart from.
        """
        workers = problem.placement.workers
        rate_of = {
            worker.profile: self._least_rate_s(problem, rank) for rank, worker in reversed([*enumerate(workers)])
        }
        seconds = 1.0 / sum(1.0 / rate_of[worker.profile] for worker in workers)
        return Bound(seconds, "compute of all workers, perfectly balanced")

    def shapes(self, problem: Problem, decided: Decided) -> tuple[WorkerShape, ...]:
        """The sizes of each worker's share, for the plan file."""
        return self._trial(problem, decided.part, decided.decision.sparse_features).shapes

    def halo(self, problem: Problem, part: np.ndarray) -> Halo:
        """The halo sets of a partition, computed once."""
        key = f"{problem.job.model.kind}:{hash(part.tobytes())}"
        if key not in self._halos:
            matrix = self._matrix(problem)
            self._halos[key] = build_halo(matrix, part, int(part.max()) + 1)
        return self._halos[key]

    def _matrix(self, problem: Problem):
        kind = problem.job.model.kind
        if kind not in self._matrices:
            self._matrices[kind] = aggregation_matrix(problem.graph.num_nodes, problem.graph.edge_index, kind)
        return self._matrices[kind]

    def _trial(self, problem: Problem, part: np.ndarray, sparse: bool) -> _Trial:
        return _Trial(problem, part, self.halo(problem, part), sparse)

    def _partitions(
        self, problem: Problem, on_step: OnStep
    ) -> Iterator[tuple[np.ndarray, Partitioner, tuple[float, ...]]]:
        size = len(problem.placement.workers)
        weights = self._target_weights(problem)
        graph, pinned = problem.graph, problem.job.pin.partitioner
        methods: tuple[Partitioner, ...] = ("metis", "ranges")
        for method in (pinned,) if pinned else methods if size > 1 else methods[1:]:
            on_step(f"partitioning into {size} ({method})")
            part = partition(graph.num_nodes, graph.edge_index, size, method, weights, seed=0)
            yield part, method, weights

    def _target_weights(self, problem: Problem) -> tuple[float, ...]:
        """Shares in proportion to speed: the inverse of each device's seconds for the whole graph."""
        names = [worker.profile for worker in problem.placement.workers]
        if len(set(names)) == 1:
            return (1.0 / len(names),) * len(names)
        speed = {name: 1.0 / self._least_rate_s(problem, names.index(name)) for name in set(names)}
        whole = sum(speed[name] for name in names)
        return tuple(speed[name] / whole for name in names)

    def _least_rate_s(self, problem: Problem, rank: int) -> float:
        """Least seconds per whole graph at which the worker computes, over shares of it."""
        alone = replace(
            problem,
            placement=problem.placement.model_copy(update={"workers": (problem.placement.workers[rank],)}),
        )
        everything = np.zeros(problem.graph.num_nodes, np.int32)
        shares = [1.0]
        while shares[-1] > 1 / (4 * len(problem.placement.workers)):
            shares.append(shares[-1] / 2)
        rates = []
        for sparse in _feature_formats(problem):
            trial = self._trial(alone, everything, sparse)
            for share in shares:
                part = _with_share(trial, share)
                rates.append(min(part.epoch_s(layers) for layers in part.descend()) / share)
        return min(rates)


@dataclass
class _Trial:
    """One partition and feature format, with everything a decision on it needs."""

    problem: Problem
    part: np.ndarray
    halo: Halo
    sparse: bool
    scaled: tuple[WorkerShape, ...] | None = None

    @cached_property
    def shapes(self) -> tuple[WorkerShape, ...]:
        hops = num_hops(self.problem.job.model)
        return self.scaled or worker_shapes(self.problem.graph, self.halo, num_hops=hops, sparse_features=self.sparse)

    @cached_property
    def costs(self) -> dict[str, OperatorCosts]:
        return {name: OperatorCosts.of(profile) for name, profile in self.problem.placement.profiles.items()}

    def program(self, layers: tuple[LayerDecision, ...]) -> Program:
        graph = self.problem.graph
        return build_program(
            self.problem.job.model,
            layers,
            num_features=graph.num_features,
            num_classes=graph.num_classes,
            sparse_input=self.sparse,
        )

    def lowering(self, layers: tuple[LayerDecision, ...]) -> FullBatchLowering:
        return FullBatchLowering(
            self.program(layers),
            self.problem.placement,
            self.shapes,
            self.halo.send_counts(),
            self.costs,
            self.problem.graph.num_classes,
        )

    def epoch_s(self, layers: tuple[LayerDecision, ...]) -> float:
        return play_epochs(self.lowering(layers).lower()).median_epoch_s

    def descend(self) -> list[tuple[LayerDecision, ...]]:
        """Every decision looked at: layer by layer the best option, the others held.

        Layers do not share resources with each other in time, so their costs add and one pass
        finds the best.
        """
        job = self.problem.job
        options = [layer_options(job, layer, sparse_features=self.sparse) for layer in range(job.model.num_layers)]
        best = tuple(choices[0] for choices in options)
        seen = {best: self.epoch_s(best)}
        for layer, choices in enumerate(options):
            for choice in choices[1:]:
                other = (*best[:layer], choice, *best[layer + 1 :])
                seen[other] = self.epoch_s(other)
            best = min(seen, key=seen.__getitem__)
        return list(seen)

    def memory(self, layers: tuple[LayerDecision, ...]) -> tuple[MemoryEstimate, ...]:
        graph, placement = self.problem.graph, self.problem.placement
        program = self.program(layers)
        return tuple(
            estimate_memory(
                program,
                shape,
                placement.profile_of(rank),
                num_features=graph.num_features,
                num_classes=graph.num_classes,
                num_workers=len(self.shapes),
                has_optimizer_state=self.problem.job.training.optimizer == "adam",
            )
            for rank, shape in enumerate(self.shapes)
        )

    def shortfall(self, layers: tuple[LayerDecision, ...]) -> tuple[int, int]:
        """(bytes missing at the worker that lacks most, its rank); not positive where all fit."""
        workers = self.problem.placement.workers
        missing = [m.peak_bytes - w.memory_bytes for m, w in zip(self.memory(layers), workers)]
        rank = int(np.argmax(missing))
        return missing[rank], rank


def _with_share(trial: _Trial, share: float) -> _Trial:
    """The same trial on a proportional share of the graph, without a halo."""
    scaled = tuple(
        shape.model_copy(
            update={
                "num_local": max(1, round(shape.num_local * share)),
                "local_edges": round(shape.local_edges * share),
                "num_train": round(shape.num_train * share),
                "hop_entries": tuple(round(entries * share) for entries in shape.hop_entries),
            }
        )
        for shape in trial.shapes
    )
    return replace(trial, scaled=scaled)


def _feature_formats(problem: Problem) -> tuple[bool, ...]:
    """Sparse and dense where most entries are zero, else dense; a pin decides alone.

    Raises `UserError` where the job pins an operator order that no layer of it can take.
    """
    job, pinned = problem.job, problem.job.pin.sparse_features
    formats = (True, False) if problem.graph.has_sparse_features else (False,)
    possible = tuple(
        sparse
        for sparse in (formats if pinned is None else (pinned,))
        if all(layer_options(job, layer, sparse_features=sparse) for layer in range(job.model.num_layers))
    )
    if not possible:
        raise UserError(
            f"{job.name}: pin.op_order and pin.precompute ask for what {job.model.kind} on these features cannot "
            f"do exactly; leave one of them out"
        )
    return possible


def _summary(decision: FullBatchDecision) -> str:
    short = {"multiply_first": "A(XW)", "aggregate_first": "(AX)W"}
    orders = ", ".join("AX once" if d.precompute else short[d.op_order] for d in decision.layers)
    return f"{decision.partitioner}; {'sparse' if decision.sparse_features else 'dense'} features; {orders}"


def _nearest_miss(tried: list[tuple[float, _Trial, FullBatchDecision]]) -> str:
    (missing, rank), trial, decision = min(
        ((trial.shortfall(decision.layers), trial, decision) for _, trial, decision in tried),
        key=lambda entry: entry[0],
    )
    worker = trial.problem.placement.workers[rank]
    need = trial.memory(decision.layers)[rank].peak_bytes
    return (
        f"no plan fits: the nearest, {_summary(decision)}, needs {need:,} bytes on worker {rank} "
        f"({worker.host}), which has {worker.memory_bytes:,}; {missing:,} bytes are missing: "
        f"add workers, memory, or lower the model's width"
    )
