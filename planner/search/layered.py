"""Plans that are still decided layer by layer: replicated, partial, under weather, or with regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.lowering import epoch_order
from gnnplan.planner.partial.decide import check_least_group
from gnnplan.planner.partial.planning import planned_partial_reduce, under_weather, with_mailboxes, without_kept_rows
from gnnplan.planner.plan import GraphFacts, Partition, Plan, WorkerLoad
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.search.predict import loads_of, prediction_of
from gnnplan.planner.strategies.base import OnStep, Problem
from gnnplan.planner.strategies.halo_exchange import HaloExchangeStrategy
from gnnplan.profiles.errors import NoPlanFitsError, UserError


def make_layered_plan(
    job: Job, placement: Placement, graph: Graph, on_step: OnStep = lambda _: None
) -> tuple[Plan, Partition]:
    """The fastest decision by simulation that fits every worker's memory, with its partition.

    Raises:
        UserError: the job cannot run on the workers at all.
        NoPlanFitsError: every decision needs more memory than some worker has.
    """
    if job.pin.prune != "none":
        raise UserError(f"{job.name}: pin.prune does not go with pin.partial_reduce yet; leave one of them out")
    placement = placement.take(job.pin.num_workers or len(placement.workers))
    check_least_group(job, len(placement.workers))
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
        kinds = (True, False) if cache.is_stale else (True,)
        schedules = [strategy.lower(problem, decided, refresh=refresh) for refresh in kinds]
    else:
        loads = loads_of(cycle, placement)
        _check_fits(job, loads)
        schedules = [schedule_of(cycle, name, placement) for name in dict.fromkeys(cycle.order)]
    partition, made = Partition(decided.part), decided.replicated
    if made:
        partition = replace(partition, cached=made.cached, staged=made.staged)
    halo = strategy.halo(problem, decided.part)
    prediction = prediction_of(schedules, loads, strategy.bound(problem), cache.refresh_interval)
    partial = planned_partial_reduce(job, schedules[0], prediction.epoch_s, halo, graph.train_mask)
    if partial is not None:
        decided = replace(decided, decision=decided.decision.model_copy(update={"partial": partial}))
        cycle = strategy.cycle(problem, decided)
    if partial is not None and cycle is not None:
        loads = loads_of(cycle, placement)
        _check_fits(job, loads)
        prediction = prediction.model_copy(update={"workers": loads})
    in_order = [schedules[kind] for kind in epoch_order(cycle.order if cycle else (), cache)]
    weather = under_weather(job, in_order, prediction.epoch_s, partial)
    plan = Plan(
        schema_version=Plan.VERSION,
        job=job,
        placement=placement,
        graph=GraphFacts.of(graph),
        decision=decided.decision,
        shapes=strategy.shapes(problem, decided),
        send_counts=tuple(tuple(row) for row in halo.send_counts().tolist()),
        replicas=made.replicas if made else None,
        cycle=CycleDocument.of(cycle) if cycle else None,
        prediction=prediction.model_copy(update={"weather": weather}),
        partition_file="",
        partition_sha256=partition.digest(),
        considered=decided.considered,
    )
    return with_mailboxes(plan), partition


def _check_fits(job: Job, loads: tuple[WorkerLoad, ...]) -> None:
    """`NoPlanFitsError` where a worker lacks memory for the program of what was decided."""
    missing = [load.peak_bytes - load.capacity_bytes for load in loads]
    rank = int(np.argmax(missing))
    if missing[rank] > 0:
        raise NoPlanFitsError(
            f"{job.name}: no plan fits: worker {rank} needs {loads[rank].peak_bytes:,} bytes for the best one and has "
            f"{loads[rank].capacity_bytes:,}; {missing[rank]:,} bytes are missing"
        )
