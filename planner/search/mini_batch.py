"""From measured stages to the best plan of mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gnnplan.planner.cluster import Cluster, Placement
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.technique import Situation
from gnnplan.planner.job import Job
from gnnplan.planner.measure_batches import measure_batches
from gnnplan.planner.measured_batches import MeasuredBatches, MeasuredWorker, ThreadSplit
from gnnplan.planner.minibatch.bound import EpochBound
from gnnplan.planner.minibatch.decision import MiniBatchDecision, WorkerBatches
from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.room import MAX_SLOTS
from gnnplan.planner.plan import Candidate, Chosen, Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.prediction import WorkerLoad
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.search.batch_placement import placement_of
from gnnplan.planner.search.predict import prediction_of
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.techniques.registry import alone, technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError

_SET_BY = {"CPU": "making batches ahead", "PCIe": "moving batches", "GPU": "training and making batches in turn"}


@dataclass(frozen=True)
class BatchCandidate:
    """A plan of mini-batches, as a search compares it.

    Args:
        cycle, schedule: of an epoch.
        epoch_s: simulated.
        loads: of every worker its peak bytes.
        bound: no way to share out threads and batches is faster.
        schedule_bound: with threads shared out as they are, no way to share out batches is.
        considered: every worker's threads shared out otherwise, fastest first.
    """

    choice: Choice
    cycle: Cycle
    schedule: Schedule
    epoch_s: float
    loads: tuple[WorkerLoad, ...]
    bound: Bound
    schedule_bound: Bound
    considered: tuple[Candidate, ...]

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """Of every worker."""
        return tuple(load.peak_bytes for load in self.loads)


def plan_mini_batches(job: Job, cluster: Cluster | None, *, timeout_s: float = 300.0) -> tuple[Plan, Partition]:
    """Measures a job's batches where they would be trained, and makes the best plan of them.

    Raises:
        UserError: the job pins what only plans of full batches have; or as `measure_batches` does.
        NoPlanFitsError: batches do not fit a worker.
        RunFailedError: a worker failed.
    """
    _check_pins(job)
    measured = measure_batches(job, cluster, timeout_s=timeout_s)
    placement = placement_of(measured, cluster)
    best = best_mini_batch(job, placement, measured)
    _check_room(best)
    partition = Partition.of([best.choice])
    plan = Plan(
        schema_version=Plan.VERSION,
        job=job,
        placement=placement,
        graph=measured.graph,
        choices=(Chosen.of(best.choice),),
        cycle=CycleDocument.of(best.cycle),
        prediction=prediction_of([best.schedule], best.loads, best.bound, best.schedule_bound),
        partition_file="",
        partition_sha256=partition.digest(),
        considered=best.considered,
    )
    return plan, partition


def best_mini_batch(job: Job, placement: Placement, measured: MeasuredBatches) -> BatchCandidate:
    """The best that the workers of a placement can do by mini-batches. Every worker decides by its own stages.

    An epoch of it trains every batch once, one step a batch: it is not the epoch of a full-batch plan.
    """
    assert job.mini_batch is not None
    tried = [sorted(_dispatched(worker, measured.device_kind), key=_seconds) for worker in measured.workers]
    decision = MiniBatchDecision(
        fan_outs=job.mini_batch.fan_outs,
        batch_size=job.mini_batch.batch_size,
        workers=tuple(of_worker[0].part for of_worker in tried),
        device_kind=measured.device_kind,
        num_features=measured.graph.num_features,
        batch_nodes=measured.batch_nodes,
        batch_edges=measured.batch_edges,
        held_bytes=tuple(worker.held_bytes for worker in measured.workers),
        step_bytes=tuple(worker.step_bytes for worker in measured.workers),
    )
    choice = choice_of(decision)
    cycle = cycle_of_choice(job, choice, placement)
    schedule = schedule_of(cycle, cycle.order[0], placement)
    return BatchCandidate(
        choice,
        cycle,
        schedule,
        play_epochs(schedule).median_epoch_s,
        tuple(_load(cycle, rank, placement, worker) for rank, worker in enumerate(measured.workers)),
        _slowest(min((each.bound for each in of_worker), key=_bound_s) for of_worker in tried),
        _slowest(of_worker[0].bound for of_worker in tried),
        tuple(_considered(max(tried, key=lambda of_worker: of_worker[0].epoch_s), choice)),
    )


def choice_of(decision: MiniBatchDecision) -> Choice:
    """The choice of the technique whose decision this is."""
    name = next(each.name for each in alone().values() if each.Decision is MiniBatchDecision)
    return Choice(name, decision)


def cycle_of_choice(job: Job, choice: Choice, placement: Placement) -> Cycle:
    """The program that a choice makes. It needs neither graph nor model: these are in its stages."""
    training, size = job.training, len(placement.workers)
    optimizer = Optimizer.of(training)
    return compose(Cycle(size, seed=training.seed), [choice], Situation(job.model, size, placement.host_of), optimizer)


@dataclass(frozen=True)
class _Tried:
    """One way to share out a worker's threads."""

    part: WorkerBatches
    epoch_s: float
    bound: EpochBound


def _seconds(tried: _Tried) -> float:
    return tried.epoch_s


def _slowest(bounds: Iterable[EpochBound]) -> Bound:
    """Of all workers, for an epoch is over when the last one's is."""
    bound = max(bounds, key=_bound_s)
    return Bound(bound.seconds, _SET_BY[bound.set_by])


def _bound_s(bound: EpochBound) -> float:
    return bound.seconds


def _dispatched(worker: MeasuredWorker, device_kind: str) -> Iterator[_Tried]:
    for split in worker.splits:
        yield _best_of(worker, split, MAX_SLOTS if device_kind == "cuda" else worker.gpu_slots)


def _best_of(worker: MeasuredWorker, split: ThreadSplit, cpu_slots: int) -> _Tried:
    found = dispatch(
        split.times,
        worker.num_batches,
        cpu_slots=cpu_slots,
        gpu_slots=worker.gpu_slots,
        num_cpu_threads=split.num_loaders,
    )
    part = WorkerBatches(
        num_batches=worker.num_batches,
        num_loaders=split.num_loaders,
        num_training_threads=split.num_training_threads,
        buffers=found.buffers or Buffers(0, 1),
        times=split.times,
        spreads=split.variation,
        is_resident=worker.is_resident,
        row_bytes=worker.row_bytes,
    )
    return _Tried(part, found.epoch_s, found.bound)


def _load(cycle: Cycle, rank: int, placement: Placement, worker: MeasuredWorker) -> WorkerLoad:
    """Loading may take more than training does."""
    training = estimate_memory(cycle, rank, placement.profile_of(rank)).peak_bytes
    capacity_bytes = placement.workers[rank].memory_bytes
    return WorkerLoad(peak_bytes=max(training, worker.loading_bytes), capacity_bytes=capacity_bytes, sent_bytes=0)


def _considered(tried: list[_Tried], choice: Choice) -> Iterator[Candidate]:
    """Of the worker that takes longest, by how its threads are shared out."""
    words = technique(choice.technique)
    for each in tried:
        alone = choice.decision.model_copy(update={"workers": (each.part,)})
        yield Candidate(summary=words.brief(alone), epoch_s=each.epoch_s)


def _check_pins(job: Job) -> None:
    pinned = sorted(job.pin.model_dump(exclude_defaults=True).keys() - {"num_workers"})
    if pinned:
        raise UserError(f"{job.name}: pin.{pinned[0]} is of full-batch plans, mini-batches take no such pin; remove it")


def _check_room(best: BatchCandidate) -> None:
    for rank, load in enumerate(best.loads):
        if load.peak_bytes > load.capacity_bytes:
            raise NoPlanFitsError(
                f"no plan fits: worker {rank} needs {load.peak_bytes:,} bytes and has {load.capacity_bytes:,}; "
                f"make batch_size or fan_outs smaller"
            )
