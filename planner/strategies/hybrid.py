"""Which rows of their halos workers make themselves (NeutronCloud, section 4), beside what halo exchange decides.

Each worker decides for itself, from the predicted rates of an epoch in which all rows are communicated; of that
choice, of caching nothing and of caching everything the plan takes what is simulated to be fastest and fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from planner.hybrid.closure import Held, build_closure
from planner.hybrid.decide import decide
from planner.hybrid.decision import DependencyDecision, WorkerDependencies
from planner.hybrid.dependencies import Dependencies, Rates, find_dependencies
from planner.hybrid.levels import Levels, levels_of, why_not
from planner.hybrid.matrices import neighbourhood_rows
from planner.hybrid.memory import Staging
from planner.hybrid.neighbourhood import Neighbourhood, build_neighbourhood
from planner.hybrid.rates import predicted_rates
from planner.hybrid.replicated import Replicated
from planner.hybrid.sizes import LevelSize, Replicas, ReplicaSizes, replica_sizes
from planner.hybrid.split import Split, SplitWork, make_split, work_of
from planner.hybrid.staging import dependency_triples
from planner.joint_cache.capacity import RESERVE_BYTES
from planner.joint_cache.decision import NO_CACHE
from planner.plan import FullBatchDecision
from planner.program import LayerDecision
from planner.strategies.base import OnStep
from planner.strategies.op_order import layer_options
from planner.strategies.trial import Trial
from profiles.errors import UserError

_Tried = tuple[float, Trial, FullBatchDecision]
_MOST_HALVINGS = 6  # of budgets that turn out not to fit
_SLOW_LINK = 10.0  # times slower than planned: by what pays then it is chosen what is staged


def replicated(matrix: sp.csr_matrix, tried: Sequence[_Tried], on_step: OnStep) -> list[_Tried]:
    """Of every partitioner and feature format the fastest shares, under the fastest order of operators that allows it.

    Args:
        matrix: the aggregation matrix of the whole graph.
        tried: what halo exchange has tried.

    Raises:
        UserError: rows of the model cannot be replicated under the orders of operators that the job leaves open.
    """
    fastest: dict[tuple[str, bool], _Tried] = {}
    for entry in sorted(tried, key=lambda each: each[0]):
        fastest.setdefault((entry[2].partitioner, entry[2].sparse_features), entry)
    found, reasons = [], []
    for _, trial, decision in fastest.values():
        options, reason = _options(trial)
        if reason:
            reasons.append(reason)
            continue
        on_step(f"choosing what to cache ({decision.partitioner}, {decision.balance} shares)")
        blocking = replace(trial, overlap=False, _caches={})
        layers = min(blocking.descend(options), key=lambda each: blocking.epoch_s(each))
        found += _Choices(blocking, layers, matrix).candidates(decision.model_copy(update={"overlap": False}))
    if not found:
        pin = trial.problem.job.pin
        raise UserError(f"{trial.problem.job.name}: pin.dependencies {pin.dependencies!r} cannot be used: {reasons[0]}")
    return found


def _options(trial: Trial) -> tuple[list[tuple[LayerDecision, ...]], str | None]:
    """(every layer's orders of operators that leave rows replicable, the reason where a layer has none)."""
    job = trial.problem.job
    after, options = LayerDecision(op_order="aggregate_first"), []
    for layer in range(job.model.num_layers):
        reason, kept = None, []
        for option in layer_options(job, layer, sparse_features=trial.sparse):
            others = [after] * job.model.num_layers
            others[layer] = option
            fault = why_not(job.model, tuple(others))
            if fault is None:
                kept.append(option)
            reason = fault or reason
        if not kept:
            return [], reason or "no order of operators is open to a layer"
        options.append(tuple(kept))
    return options, None


@dataclass
class _Choices:
    """One partition under one order of operators."""

    trial: Trial
    layers: tuple[LayerDecision, ...]
    matrix: sp.csr_matrix

    @cached_property
    def levels(self) -> Levels:
        graph = self.trial.problem.graph
        return levels_of(self.trial.problem.job.model, self.layers, graph.num_features, graph.num_classes)

    @cached_property
    def nears(self) -> tuple[Neighbourhood, ...]:
        blocks = self.trial.halo.blocks
        return tuple(build_neighbourhood(self.matrix, block, self.levels.num_hops) for block in blocks)

    @cached_property
    def rows(self) -> tuple[sp.csr_matrix, ...]:
        pairs = zip(self.trial.halo.blocks, self.nears)
        return tuple(neighbourhood_rows(self.matrix, block, near) for block, near in pairs)

    @cached_property
    def dependencies(self) -> tuple[Dependencies, ...]:
        return tuple(find_dependencies(near, self.levels) for near in self.nears)

    @cached_property
    def predicted(self) -> tuple[tuple[Rates, ...], float]:
        """(rates of every worker, seconds of an exchange of next to nothing) where all is communicated."""
        lowering = self._with(self.nothing, self.nothing, adjusts=False).lowering(self.layers)
        lowering.lower()
        return predicted_rates(lowering, self.levels)  # type: ignore[arg-type]

    @property
    def nothing(self) -> list[np.ndarray]:
        return [np.zeros((self.levels.count - self.levels.first, near.num_halo), bool) for near in self.nears]

    @property
    def everything(self) -> list[np.ndarray]:
        return [~mask for mask in self.nothing]

    def candidates(self, decision: FullBatchDecision) -> list[_Tried]:
        """The decisions open to the job's pins, with their epochs."""
        if self.trial.problem.job.pin.dependencies == "cache":
            return [self._tried(decision, self.everything, self.everything, self._words("all"))]
        masks, staged, words = self._within_budget()
        adjusts = self.trial.problem.job.pin.adjust == "online"
        found = [self._tried(decision, masks, staged, words)]
        if any(mask.any() for mask in masks):
            nothing = self.nothing
            found.append(self._tried(decision, nothing, staged if adjusts else nothing, self._words("nothing", words)))
        if self._may_cache_all() and not all(mask.all() for mask in masks):
            found.append(self._tried(decision, self.everything, self.everything, self._words("all", words)))
        return found

    def _may_cache_all(self) -> bool:
        needs = [self._work(rank, self._split(rank, mask)).num_bytes for rank, mask in enumerate(self.everything)]
        return all(need <= budget for need, budget in zip(needs, self._budgets(), strict=True))

    def _within_budget(self) -> tuple[list[np.ndarray], list[np.ndarray], list[tuple[str, float]]]:
        """(what each worker caches, what it stages, how it was found and its bound), as memory allows.

        The levels count a row once; activations and gradients come on top, so a budget may turn out too large.
        """
        budgets = self._budgets()
        adjusts = self.trial.problem.job.pin.adjust == "online"
        for left in reversed(range(_MOST_HALVINGS + 1)):
            decided = [
                decide(near, self.levels, dependencies, rates, budget)
                for near, dependencies, rates, budget in zip(
                    self.nears, self.dependencies, self.predicted[0], budgets, strict=True
                )
            ]
            masks = [each.cached.reshape(mask.shape) for each, mask in zip(decided, self.nothing, strict=True)]
            staged = [self._union(rank, masks[rank], budgets[rank]) for rank in range(len(masks))] if adjusts else masks
            missing = self._missing(masks, staged, adjusts=adjusts)
            if max(missing) <= 0:
                break
            less = 0.5 if left > 1 else 0.0
            budgets = [budget * (less if lacks > 0 else 1.0) for budget, lacks in zip(budgets, missing, strict=True)]
        return masks, staged, [(each.method, each.bound_s) for each in decided]

    def _budgets(self) -> list[float]:
        """What each worker may hold to make rows from: the pin, and what its memory leaves."""
        pinned = self.trial.problem.job.pin.staged_bytes
        trial = self._with(self.nothing, self.nothing, adjusts=False)
        free = [
            max(0, worker.memory_bytes - need.peak_bytes - RESERVE_BYTES)
            for need, worker in zip(trial.memory(self.layers), trial.problem.placement.workers, strict=True)
        ]
        return [float(room if pinned is None else min(room, pinned)) for room in free]

    def _missing(self, masks: list[np.ndarray], staged: list[np.ndarray], *, adjusts: bool) -> list[int]:
        trial = self._with(masks, staged, adjusts=adjusts)
        workers = trial.problem.placement.workers
        return [m.peak_bytes - w.memory_bytes for m, w in zip(trial.memory(self.layers), workers, strict=True)]

    def _union(self, rank: int, mask: np.ndarray, budget_bytes: float) -> np.ndarray:
        """What is cached, grown by what would pay most on slow links, for as long as the budget lasts."""
        near, dependencies, rates = self.nears[rank], self.dependencies[rank], self.predicted[0][rank]
        highest_s = max(rates.row_s) or 1.0
        slow = rates.model_copy(update={"row_s": tuple(_SLOW_LINK * (row_s or highest_s) for row_s in rates.row_s)})
        free = Rates(vertex_s=0.0, edge_s=0.0, row_s=slow.row_s)
        density_s = dependencies.communicated_s(slow) - dependencies.alone.seconds(slow)
        order = np.argsort(-density_s / np.maximum(dependencies.alone.num_bytes, 1), kind="stable")
        closure = build_closure(near, self.levels, dependencies, free)
        grown = Held.of(closure, np.flatnonzero(mask.ravel())).grow(order, budget_bytes)
        return grown.cached.reshape(mask.shape)

    def _words(self, method: str, like: list[tuple[str, float]] | None = None) -> list[tuple[str, float]]:
        """The method, and for every worker a bound: no choice saves more than all communication takes."""
        if like is not None:
            return [(method, bound_s) for _, bound_s in like]
        splits, rates = [self._split(rank, mask) for rank, mask in enumerate(self.everything)], self.predicted[0]
        return [
            (method, float(self._work(rank, split).saved_floats @ np.asarray(rates[rank].row_s)))
            for rank, split in enumerate(splits)
        ]

    def _tried(
        self,
        decision: FullBatchDecision,
        masks: list[np.ndarray],
        staged: list[np.ndarray],
        words: list[tuple[str, float]],
    ) -> _Tried:
        pin = self.trial.problem.job.pin
        trial = self._with(masks, staged, adjusts=pin.adjust == "online")
        rates, latency_s = self.predicted
        workers = []
        for rank, (method, bound_s) in enumerate(words):
            work = self._work(rank, self._split(rank, masks[rank]))
            union = self._work(rank, self._split(rank, staged[rank]))
            saved_s = work.saved_s(rates[rank])
            workers.append(
                WorkerDependencies(
                    num_dependencies=masks[rank].size,
                    num_cached=int(masks[rank].sum()),
                    num_staged=int(staged[rank].sum()),
                    num_bytes=int(work.num_bytes),
                    staged_bytes=int(union.num_bytes),
                    saved_s=saved_s,
                    bound_s=max(bound_s, saved_s, 0.0),
                    method=method,
                    rates=rates[rank],
                )
            )
        decided = decision.model_copy(
            update={
                "layers": self.layers,
                "cache": NO_CACHE,
                "dependencies": DependencyDecision(
                    mode=pin.dependencies, adjust=pin.adjust, latency_s=latency_s, workers=tuple(workers)
                ),
            }
        )
        return trial.epoch_s(self.layers), trial, decided

    def _split(self, rank: int, mask: np.ndarray) -> Split:
        return make_split(self.nears[rank], self.levels.first, mask)

    def _work(self, rank: int, split: Split) -> SplitWork:
        return work_of(split, self.nears[rank], self.levels, len(self.nears))

    def _with(self, masks: list[np.ndarray], staged: list[np.ndarray], *, adjusts: bool) -> Trial:
        """The trial with these dependencies cached."""
        splits, unions = ([self._split(r, mask) for r, mask in enumerate(each)] for each in (masks, staged))
        replicas = self._sizes(splits)
        most = replicas
        if adjusts:
            none = [self._split(rank, mask) for rank, mask in enumerate(self.nothing)]
            most = _most(self._sizes(unions), self._sizes(none))
        made = Replicated(
            replicas=replicas,
            most=most,
            staging=tuple(self._staging(rank, union, adjusts) for rank, union in enumerate(unions)),
            cached=dependency_triples(masks, self.trial.halo, self.levels.first),
            staged=dependency_triples(staged if adjusts else [], self.trial.halo, self.levels.first),
        )
        return replace(self.trial, replicated=made, scaled=self.trial.shapes, _caches={})

    def _sizes(self, splits: list[Split]) -> Replicas:
        entries = tuple(self._input_entries(rank, split) for rank, split in enumerate(splits))
        return replica_sizes(self.trial.halo, self.nears, self.rows, tuple(splits), entries)

    def _input_entries(self, rank: int, split: Split) -> tuple[int, ...]:
        """Stored entries of X, AX ... over own rows and replicas, which are taken to hold as many a row."""
        own, num_rows = self.trial.shapes[rank], len(split.replicas(split.first))
        return tuple(entries + -(-entries * num_rows // max(1, own.num_local)) for entries in own.hop_entries)

    def _staging(self, rank: int, union: Split, adjusts: bool) -> Staging:
        graph, program, near = self.trial.problem.graph, self.trial.program(self.layers), self.nears[rank]
        num_rows, own = len(union.replicas(union.first)), self.trial.shapes[rank]
        hops = [int(name[1:]) for name in program.precomputed] or [0]
        if self.trial.sparse:
            extra = self._input_entries(rank, union)
            input_entries = sum(extra[hop] - own.hop_entries[hop] for hop in hops)
        else:
            input_entries = len(hops) * num_rows * graph.num_features
        beyond = union.anywhere[near.num_halo :]
        return Staging(
            num_places=near.num_halo + int(beyond.sum()),
            num_entries=int(near.num_entries[union.above_first].sum()),
            input_entries=input_entries,
            num_dependencies=int(union.cached.sum()) if adjusts else 0,
        )


def _most(union: Replicas, none: Replicas) -> Replicas:
    """No fewer rows and entries than any split between caching nothing and caching all that is staged."""
    workers = []
    for ours, theirs in zip(union.workers, none.workers, strict=True):
        levels = tuple(
            LevelSize(
                num_replicas=most.num_replicas,
                num_fetched=least.num_fetched,
                num_sent=least.num_sent,
                near_edges=most.near_edges,
                made_edges=most.made_edges + most.far_edges,
                far_edges=least.far_edges + most.made_edges + most.far_edges,
            )
            for most, least in zip(ours.levels, theirs.levels, strict=True)
        )
        workers.append(ReplicaSizes(levels=levels, input_entries=ours.input_entries))
    return Replicas(first=none.first, workers=tuple(workers), row_counts=none.row_counts)
