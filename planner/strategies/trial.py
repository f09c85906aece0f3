"""One partition and feature format of a job: its lowering, its seconds, its memory, for every order of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.halo import Halo
from gnnplan.planner.hybrid.lowering import HybridLowering
from gnnplan.planner.hybrid.memory import estimate_hybrid_memory
from gnnplan.planner.hybrid.replicated import Replicated
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.partial.decide import most_staleness
from gnnplan.planner.partial.memory import mailbox_bytes, mean_bytes, on_device, sums_bytes
from gnnplan.planner.shapes import WorkerShape, worker_shapes
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.steps import LayerDecision, Program, build_program, num_hops
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.joint_cache import choose_cache
from gnnplan.planner.strategies.op_order import layer_options
from gnnplan.profiles.errors import UserError


@dataclass
class Trial:
    """One partition and feature format, with everything a decision on it needs.

    Args:
        scaled: shapes to take instead of the halo's.
        replicated: what workers make of each other's vertices (None: all halo rows are communicated).
        overlap: local rows are aggregated while halo rows travel.
    """

    problem: Problem
    part: np.ndarray
    halo: Halo
    sparse: bool
    scaled: tuple[WorkerShape, ...] | None = None
    replicated: Replicated | None = None
    overlap: bool = False
    _caches: dict[tuple[LayerDecision, ...], CacheDecision] = field(default_factory=dict)

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

    def lowering(
        self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE, *, refresh: bool = True
    ) -> FullBatchLowering:
        if self.replicated:
            return self._hybrid_lowering(layers, self.replicated)
        return FullBatchLowering(
            self.program(layers),
            self.problem.placement,
            self.shapes,
            self.halo.send_counts(),
            self.costs,
            self.problem.graph.num_classes,
            cache,
            refresh,
            self.overlap,
        )

    def _hybrid_lowering(self, layers: tuple[LayerDecision, ...], replicated: Replicated) -> HybridLowering:
        return HybridLowering(
            self.program(layers),
            self.problem.placement,
            self.shapes,
            self.halo.send_counts(),
            self.costs,
            self.problem.graph.num_classes,
            replicas=replicated.replicas,
        )

    def epoch_s(self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE) -> float:
        """Seconds of an epoch, mean over a refresh interval."""
        kinds = self._kinds(layers, cache)
        return sum(share * play_epochs(lowering.lower()).median_epoch_s for share, lowering in kinds)

    def _kinds(self, layers: tuple[LayerDecision, ...], cache: CacheDecision) -> list[tuple[float, FullBatchLowering]]:
        """(share of all epochs, lowering) of each kind of epoch."""
        refresh = self.lowering(layers, cache)
        if not cache.is_stale:
            return [(1.0, refresh)]
        share = 1 / cache.refresh_interval
        return [(share, refresh), (1 - share, self.lowering(layers, cache, refresh=False))]

    def cache(self, layers: tuple[LayerDecision, ...]) -> CacheDecision:
        """The halo rows to keep: as many as fit, where that shortens the epoch, else none."""
        if layers not in self._caches:
            self._caches[layers] = choose_cache(self, layers)
        return self._caches[layers]

    def busy_s(
        self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE, *, ports: bool = False
    ) -> list[float]:
        """Seconds of work of every worker in an epoch, waiting for others left out.

        Of exchanges the processor's work counts, or with `ports` the time that the worker's own port takes.
        """
        busy = np.zeros(len(self.shapes))
        for share, lowering in self._kinds(layers, cache):
            for task in lowering.lower().tasks:
                if task.category != "communicate":
                    busy[task.worker] += share * task.seconds
                elif not ports:
                    busy[task.worker] += share * task.processor_s
            if ports:
                busy += share * np.array(lowering.ports_s())
        return busy.tolist()

    def descend(self, options: Sequence[Sequence[LayerDecision]] = ()) -> list[tuple[LayerDecision, ...]]:
        """Every decision looked at: layer by layer the best of its options, the others held.

        Layers do not share resources with each other in time, so their costs add and one pass
        finds the best.
        """
        job = self.problem.job
        options = options or [
            layer_options(job, layer, sparse_features=self.sparse) for layer in range(job.model.num_layers)
        ]
        best = tuple(choices[0] for choices in options)
        seen = {best: self.epoch_s(best, self.cache(best))}
        for layer, choices in enumerate(options):
            for choice in choices[1:]:
                other = (*best[:layer], choice, *best[layer + 1 :])
                seen[other] = self.epoch_s(other, self.cache(other))
            best = min(seen, key=seen.__getitem__)
        return list(seen)

    def memory(self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE) -> tuple[MemoryEstimate, ...]:
        program = self.program(layers)
        return tuple(self.memory_of(rank, program, shape, cache) for rank, shape in enumerate(self.shapes))

    def memory_of(
        self, rank: int, program: Program, shape: WorkerShape, cache: CacheDecision = NO_CACHE
    ) -> MemoryEstimate:
        """What one worker would need for a share of this shape."""
        graph = self.problem.graph
        if self.replicated:
            return self._hybrid_memory_of(rank, program, shape, self.replicated)
        return estimate_memory(
            program,
            shape,
            self.problem.placement.profile_of(rank),
            num_features=graph.num_features,
            num_classes=graph.num_classes,
            num_workers=len(self.shapes),
            has_optimizer_state=self.problem.job.training.optimizer == "adam",
            cache=cache,
            rank=rank,
            overlap=self.overlap,
        )

    def _hybrid_memory_of(
        self, rank: int, program: Program, shape: WorkerShape, replicated: Replicated
    ) -> MemoryEstimate:
        """With the rows that are planned, or where it may decide again with the most of every kind."""
        graph = self.problem.graph
        estimates = [
            estimate_hybrid_memory(
                program,
                shape,
                self.problem.placement.profile_of(rank),
                replicas,
                replicated.staging[rank],
                rank,
                num_features=graph.num_features,
                num_classes=graph.num_classes,
                has_optimizer_state=self.problem.job.training.optimizer == "adam",
            )
            for replicas in {id(each): each for each in (replicated.replicas, replicated.most)}.values()
        ]
        return max(estimates, key=lambda estimate: estimate.peak_bytes)

    def needs_bytes(self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE) -> list[int]:
        """Of every worker's device, what partial reduce keeps counted where the job pins it."""
        job, needs = self.problem.job, [estimate.peak_bytes for estimate in self.memory(layers, cache)]
        if job.pin.partial_reduce is None:
            return needs
        program = self.program(layers)
        # Where it is decided again online which rows are made, any of them may travel.
        replicas = self.replicated.replicas if self.replicated else None
        sums = sums_bytes(program, most_staleness(job), job.training.epochs)
        mean = mean_bytes(program, job.pin.partial_reduce.average_epochs)
        for rank, shape in enumerate(self.shapes):
            num_bytes = mailbox_bytes(program, shape, rank, replicas) + sums
            needs[rank] += on_device(num_bytes, self.problem.placement, rank) + mean
        return needs

    def shortfall(self, layers: tuple[LayerDecision, ...], cache: CacheDecision = NO_CACHE) -> tuple[int, int]:
        """(bytes missing at the worker that lacks most, its rank); not positive where all fit."""
        workers = self.problem.placement.workers
        missing = [need - w.memory_bytes for need, w in zip(self.needs_bytes(layers, cache), workers)]
        rank = int(np.argmax(missing))
        return missing[rank], rank


def with_share(trial: Trial, share: float, *, gives_back: bool = True) -> Trial:
    """The same trial on a proportional share of the graph, without a halo.

    Without `gives_back` all its edges come from elsewhere, and aggregations cost nothing backward.
    """

    def scaled(shape: WorkerShape) -> WorkerShape:
        num_edges = round(shape.local_edges * share)
        return shape.model_copy(
            update={
                "num_local": max(1, round(shape.num_local * share)),
                "local_edges": num_edges if gives_back else 0,
                "remote_edges": 0 if gives_back else num_edges,
                "num_train": round(shape.num_train * share),
                "hop_entries": tuple(round(entries * share) for entries in shape.hop_entries),
            }
        )

    return replace(trial, scaled=tuple(map(scaled, trial.shapes)), _caches={})


def overlap_options(problem: Problem) -> tuple[bool, ...]:
    """Without and with computation beside exchanges, where some can have any; a pin decides alone.

    Candidates are priced by a lowering that has no parts of an attention, so GAT overlaps where the job pins it. Raises
    `UserError` where no program could do so.
    """
    job, place = problem.job, problem.placement
    pinned = job.pin.overlap
    if len(place.workers) == 1:
        return (False,)
    if job.model.kind != "gat":
        return (False, True) if pinned is None else (pinned,)
    if pinned and job.pin.refresh_interval > 1 and any(place.region_bytes):
        raise UserError(f"{job.name}: gat does not overlap beside a host's region; leave out pin.overlap")
    return (bool(pinned),)


def feature_formats(problem: Problem) -> tuple[bool, ...]:
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
