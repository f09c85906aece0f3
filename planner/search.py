"""From a job and a cluster to the best plan that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gnnplan.planner.cluster import Cluster, Placement, resolve
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.lowering import epoch_order, lower_plan
from gnnplan.planner.partial.planning import planned_partial_reduce, under_weather, with_mailboxes, without_kept_rows
from gnnplan.planner.plan import GraphFacts, Partition, Plan, Prediction, WorkerLoad
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.readers.cost import sent_bytes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.bounds import Bound
from gnnplan.planner.simulator.montecarlo import percentiles
from gnnplan.planner.simulator.play import interval_trace, predicted_trace
from gnnplan.planner.strategies.base import OnStep, Problem
from gnnplan.planner.strategies.halo_exchange import HaloExchangeStrategy
from gnnplan.planner.trace import Percentiles, Trace
from gnnplan.profiles.errors import NoPlanFitsError, UserError


def make_plan(job: Job, cluster: Cluster, graph: Graph, on_step: OnStep = lambda _: None) -> tuple[Plan, Partition]:
    """The fastest plan by simulation that fits every worker's memory, with its partition.

    Raises:
        UserError: the job cannot run on the cluster at all.
        NoPlanFitsError: every decision needs more memory than some worker has.
    """
    if job.mini_batch is not None:
        raise UserError(f"{job.name}: mini-batches are planned where they run, from measured stages: gnnplan minibatch")
    placement = resolve(cluster)
    if job.pin.num_workers:
        placement = placement.take(job.pin.num_workers)
    placement = _only_used_profiles(placement)
    problem = Problem(graph, without_kept_rows(job), placement)
    strategy = HaloExchangeStrategy()
    reason = strategy.applicable(problem)
    if reason:
        raise UserError(f"{job.name}: halo exchange cannot be used: {reason}")
    decided = strategy.decide(problem, on_step)
    on_step("simulating the chosen plan")
    cache, cycle = decided.decision.cache, strategy.cycle(problem, decided)
    if cycle is None:
        loads = strategy.memory(problem, decided)
        schedules = [strategy.lower(problem, decided, refresh=refresh) for refresh in _kinds(cache)]
    else:
        loads = _loads(cycle, placement)
        _check_fits(job, loads)
        schedules = [schedule_of(cycle, name, placement) for name in dict.fromkeys(cycle.order)]
    partition, made = Partition(decided.part, decided.pruned), decided.replicated
    if made:
        partition = replace(partition, cached=made.cached, staged=made.staged)
    halo = strategy.halo(problem, decided.part, decided.pruned)
    prediction = _prediction(schedules, loads, strategy.bound(problem), cache)
    partial = planned_partial_reduce(job, schedules[0], prediction.epoch_s, halo, graph.train_mask)
    in_order = [schedules[kind] for kind in epoch_order(cycle.order if cycle else (), cache)]
    weather = under_weather(job, in_order, prediction.epoch_s, partial)
    plan = Plan(
        schema_version=Plan.VERSION,
        job=job,
        placement=placement,
        graph=GraphFacts.of(graph),
        decision=decided.decision.model_copy(update={"partial": partial}),
        shapes=strategy.shapes(problem, decided),
        send_counts=tuple(tuple(row) for row in halo.send_counts().tolist()),
        pruned=strategy.pruned(problem, decided),
        replicas=made.replicas if made else None,
        cycle=CycleDocument.of(cycle) if cycle else None,
        prediction=prediction.model_copy(update={"weather": weather}),
        partition_file="",
        partition_sha256=partition.digest(),
        considered=decided.considered,
    )
    return with_mailboxes(plan), partition


def named(plan: Plan, path: Path) -> Plan:
    """The plan with its partition file named after `path`."""
    return plan.model_copy(update={"partition_file": f"{path.stem}.partition.npz"})


def simulate_plan(plan: Plan, num_replicas: int = 0) -> Trace:
    """Plays the plan's schedule on the virtual clock; needs neither graph nor devices.

    Args:
        num_replicas: epochs to be played beside it whose tasks fluctuate as they were measured to; those that the
            profile has no spread of (published or scaled figures) are constant.
    """
    cache = plan.decision.cache
    schedules = [lower_plan(plan, refresh=refresh) for refresh in _kinds(cache)]
    trace = _trace(schedules, plan.fingerprint(), plan.prediction.workers, cache)
    if not num_replicas:
        return trace
    figures = [percentiles(schedule, num_replicas, seed=0) for schedule in schedules]
    # With a refresh interval each figure is the mean of its epochs'.
    weights = (1, cache.refresh_interval - 1)[: len(schedules)]
    mean = {f"{name}_s": float(np.average([kind[name] for kind in figures], weights=weights)) for name in figures[0]}
    return trace.model_copy(update={"fluctuating": Percentiles(**mean)})


def _check_fits(job: Job, loads: tuple[WorkerLoad, ...]) -> None:
    """`NoPlanFitsError` where a worker lacks memory for the program of what was decided."""
    missing = [load.peak_bytes - load.capacity_bytes for load in loads]
    rank = int(np.argmax(missing))
    if missing[rank] > 0:
        raise NoPlanFitsError(
            f"{job.name}: no plan fits: worker {rank} needs {loads[rank].peak_bytes:,} bytes for the best one and has "
            f"{loads[rank].capacity_bytes:,}; {missing[rank]:,} bytes are missing"
        )


def _loads(cycle: Cycle, placement: Placement) -> tuple[WorkerLoad, ...]:
    """Peak bytes of every worker, and what it sends in each kind of epoch."""
    sent = [sent_bytes(cycle, name).tolist() for name in dict.fromkeys(cycle.order)]
    return tuple(
        WorkerLoad(
            peak_bytes=estimate_memory(cycle, rank, placement.profile_of(rank)).peak_bytes,
            capacity_bytes=worker.memory_bytes,
            sent_bytes=sent[0][rank],
            reuse_sent_bytes=sent[-1][rank] if len(sent) > 1 else 0,
        )
        for rank, worker in enumerate(placement.workers)
    )


def _kinds(cache: CacheDecision) -> tuple[bool, ...]:
    """The kinds of epochs, as values of `refresh`."""
    return (True, False) if cache.is_stale else (True,)


def _trace(
    schedules: Sequence[Schedule], fingerprint: str, loads: tuple[WorkerLoad, ...], cache: CacheDecision
) -> Trace:
    peak_bytes = tuple(load.peak_bytes for load in loads)
    sent_bytes = [tuple(load.sent_bytes for load in loads), tuple(load.reuse_sent_bytes for load in loads)]
    first, *others = (predicted_trace(e, fingerprint, peak_bytes, sent) for e, sent in zip(schedules, sent_bytes))
    return interval_trace(first, others[0], cache.refresh_interval) if others else first


def _only_used_profiles(placement: Placement) -> Placement:
    used = {worker.profile for worker in placement.workers}
    kept = {name: profile for name, profile in placement.profiles.items() if name in used}
    return placement.model_copy(update={"profiles": kept})


def _prediction(
    schedules: Sequence[Schedule], loads: tuple[WorkerLoad, ...], bound: Bound, cache: CacheDecision
) -> Prediction:
    trace = _trace(schedules, "", loads, cache)
    return Prediction(
        epoch_s=trace.median_epoch_s,
        compute_s=trace.category_s("compute"),
        communicate_s=trace.category_s("communicate"),
        host_s=trace.category_s("host"),
        bound_s=bound.seconds,
        bound_resource=bound.set_by,
        workers=loads,
        unprofiled=tuple(sorted({task.key for each in schedules for task in each.tasks if task.unprofiled})),
    )
