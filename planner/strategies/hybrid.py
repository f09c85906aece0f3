"""Which rows of their halos workers make themselves (NeutronCloud, section 4), beside what halo exchange decides.

Each worker decides for itself, from the predicted rates of an epoch in which all rows are communicated; of that
choice, of caching nothing and of caching everything the plan takes what is simulated to be fastest and fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.decision import DependencyDecision, WorkerDependencies
from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import why_not
from gnnplan.planner.joint_cache.capacity import RESERVE_BYTES
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import OnStep
from gnnplan.planner.strategies.hybrid_trial import HybridTrial, Masks
from gnnplan.planner.strategies.op_order import layer_options
from gnnplan.planner.strategies.shares import Tried, epoch_s_of
from gnnplan.planner.strategies.trial import Trial
from gnnplan.profiles.errors import UserError

_MOST_HALVINGS = 6  # of budgets that turn out not to fit
_SLOW_LINK = 10.0  # times slower than planned: by what pays then it is chosen what is staged


def replicated(matrix: sp.csr_matrix, tried: Sequence[Tried], on_step: OnStep) -> list[Tried]:
    """Of every partitioner, kind of shares and feature format the fastest, under the fastest order that allows it.

    Args:
        matrix: the aggregation matrix of the whole graph.
        tried: what halo exchange has tried.

    Raises:
        UserError: rows of the model cannot be replicated under the orders of operators that the job leaves open.
    """
    fastest: dict[tuple[str, str, bool], Tried] = {}
    for entry in sorted(tried, key=epoch_s_of):
        decision = entry[2]
        fastest.setdefault((decision.partitioner, decision.balance, decision.sparse_features), entry)
    found, reasons = [], []
    for _, trial, decision in fastest.values():
        options, reason = _options(trial)
        if reason:
            reasons.append(reason)
            continue
        on_step(f"choosing what to cache ({decision.partitioner}, {decision.balance} shares)")
        layers = min(trial.descend(options), key=lambda each: trial.epoch_s(each))
        found += _candidates(HybridTrial(trial, layers, matrix), decision)
    if not found:
        job = tried[0][1].problem.job
        raise UserError(f"{job.name}: pin.dependencies {job.pin.dependencies!r} cannot be used: {reasons[0]}")
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


@dataclass(frozen=True)
class _Choice:
    """What every worker caches, and where it may decide again what it may cache; how it was found, and bounds.

    Args:
        staged: None where nothing is decided again.
        bounds_s: of every worker: no choice within its budget saves more.
    """

    cached: Masks
    staged: Masks | None
    methods: Sequence[str]
    bounds_s: Sequence[float]


def _candidates(hybrid: HybridTrial, decision: FullBatchDecision) -> list[Tried]:
    """The decisions open to the job's pins, with their epochs."""
    if hybrid.trial.problem.job.pin.dependencies == "cache":
        # Without a search there is a simple bound: no choice saves more than all communication takes.
        works = [hybrid.work(rank, mask) for rank, mask in enumerate(hybrid.everything)]
        rates = hybrid.predicted[0]
        bounds_s = [float(work.saved_floats @ np.asarray(rate.row_s)) for work, rate in zip(works, rates, strict=True)]
        return [_tried(hybrid, decision, _Choice(hybrid.everything, None, ["all"] * len(works), bounds_s))]
    best = _within_budget(hybrid)
    choices = [best]
    if any(mask.any() for mask in best.cached):
        choices.append(_Choice(hybrid.nothing, best.staged, ["nothing"] * hybrid.num_workers, best.bounds_s))
    staged = hybrid.everything if best.staged else None
    if not all(mask.all() for mask in best.cached) and _may_cache_all(hybrid, staged):
        choices.append(_Choice(hybrid.everything, staged, ["all"] * hybrid.num_workers, best.bounds_s))
    return [_tried(hybrid, decision, choice) for choice in choices]


def _within_budget(hybrid: HybridTrial) -> _Choice:
    """What each worker chooses by its rates, as memory allows.

    The levels count a row once; activations and gradients come on top, so a budget may turn out too large.
    """
    budgets, adjusts = _budgets(hybrid), False
    for left in reversed(range(_MOST_HALVINGS + 1)):
        decided = [hybrid.decide(rank, budget) for rank, budget in enumerate(budgets)]
        cached = [each.cached.reshape(mask.shape) for each, mask in zip(decided, hybrid.nothing, strict=True)]
        staged = [_union(hybrid, rank, cached[rank], budgets[rank]) for rank in range(len(cached))] if adjusts else None
        missing = _missing(hybrid, cached, staged)
        if max(missing) <= 0:
            break
        less = 0.5 if left > 1 else 0.0
        budgets = [budget * (less if lacks > 0 else 1.0) for budget, lacks in zip(budgets, missing, strict=True)]
    return _Choice(cached, staged, [each.method for each in decided], [each.bound_s for each in decided])


def _budgets(hybrid: HybridTrial) -> list[float]:
    """What each worker may hold to make rows from: the pin, and what its memory leaves."""
    pinned: int | None = None
    free = [max(0, -lacks - RESERVE_BYTES) for lacks in _missing(hybrid, hybrid.nothing, None)]
    return [float(room if pinned is None else min(room, pinned)) for room in free]


def _missing(hybrid: HybridTrial, cached: Masks, staged: Masks | None) -> list[int]:
    """Bytes that each worker lacks, its mailbox counted where it will have one; negative where some are left."""
    trial = hybrid.split_into(cached, staged)
    workers = trial.problem.placement.workers
    return [need - w.memory_bytes for need, w in zip(trial.needs_bytes(hybrid.layers), workers, strict=True)]


def _may_cache_all(hybrid: HybridTrial, staged: Masks | None) -> bool:
    needs = [hybrid.work(rank, mask).num_bytes for rank, mask in enumerate(hybrid.everything)]
    is_within = all(need <= budget for need, budget in zip(needs, _budgets(hybrid), strict=True))
    return is_within and max(_missing(hybrid, hybrid.everything, staged)) <= 0


def _union(hybrid: HybridTrial, rank: int, mask: np.ndarray, budget_bytes: float) -> np.ndarray:
    """What is cached, grown by what would pay most on slow links, for as long as the budget lasts."""
    near, dependencies, rates = hybrid.nears[rank], hybrid.dependencies[rank], hybrid.predicted[0][rank]
    highest_s = max(rates.row_s) or 1.0
    slow = rates.model_copy(update={"row_s": tuple(_SLOW_LINK * (row_s or highest_s) for row_s in rates.row_s)})
    gain_s = dependencies.communicated_s(slow) - dependencies.alone.seconds(slow)
    order = np.argsort(-gain_s / np.maximum(dependencies.alone.num_bytes, 1), kind="stable")
    # Computing counts as free here, so that everything is taken that fits.
    closure = build_closure(near, hybrid.levels, dependencies, Rates(vertex_s=0.0, edge_s=0.0, row_s=slow.row_s))
    return Held.of(closure, np.flatnonzero(mask.ravel())).grow(order, budget_bytes).cached.reshape(mask.shape)


def _tried(hybrid: HybridTrial, decision: FullBatchDecision, choice: _Choice) -> Tried:
    pin, (rates, latency_s) = hybrid.trial.problem.job.pin, hybrid.predicted
    trial = hybrid.split_into(choice.cached, choice.staged)
    decided = DependencyDecision(
        mode=pin.dependencies,
        adjust="none",
        latency_s=latency_s,
        workers=tuple(_worker(hybrid, choice, rank, rates[rank]) for rank in range(hybrid.num_workers)),
    )
    update = {"layers": hybrid.layers, "cache": NO_CACHE, "overlap": False, "dependencies": decided}
    return trial.epoch_s(hybrid.layers), trial, decision.model_copy(update=update)


def _worker(hybrid: HybridTrial, choice: _Choice, rank: int, rates: Rates) -> WorkerDependencies:
    cached = choice.cached[rank]
    staged = choice.staged[rank] if choice.staged else cached
    work, union = hybrid.work(rank, cached), hybrid.work(rank, staged)
    saved_s = work.saved_s(rates)
    return WorkerDependencies(
        num_dependencies=cached.size,
        num_cached=int(cached.sum()),
        num_staged=int(staged.sum()),
        num_bytes=int(work.num_bytes),
        staged_bytes=int(union.num_bytes),
        saved_s=saved_s,
        bound_s=max(choice.bounds_s[rank], saved_s, 0.0),
        method=choice.methods[rank],
        rates=rates,
    )
