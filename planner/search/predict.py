"""What the simulator says of a plan's epochs, and what each worker holds and sends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.interval.predict import interval_of
from gnnplan.planner.prediction import Prediction, WorkerLoad
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.cost import sent_bytes
from gnnplan.planner.readers.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.readers.sustained import has_pauses, mean_epoch_s, sustained_bound
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.montecarlo import percentiles
from gnnplan.planner.simulator.play import cycle_trace, predicted_trace
from gnnplan.planner.trace import Percentiles, Trace

_MANY_KINDS = 2  # of epochs: where there are more, they share the replicas of so many
NUM_REPLICAS = 1000  # of an epoch; `plan` and `simulate` show the same figures for they play as many


def loads_of(cycle: Cycle, placement: Placement, memory: Sequence[MemoryEstimate] = ()) -> tuple[WorkerLoad, ...]:
    """Peak bytes of every worker, and what it sends in the first epoch of a cycle and in those after it.

    Args:
        memory: of every worker, where it was read before.
    """
    memory = memory or [estimate_memory(cycle, rank, placement.profile_of(rank)) for rank in cycle.workers]
    sent = {name: sent_bytes(cycle, name) for name in dict.fromkeys(cycle.order)}
    first, *later = (sent[name] for name in cycle.order)
    mean = np.rint(np.mean(later, axis=0)).astype(int) if later else np.zeros_like(first)
    return tuple(
        WorkerLoad(
            peak_bytes=memory[rank].peak_bytes,
            capacity_bytes=worker.memory_bytes,
            sent_bytes=int(first[rank]),
            reuse_sent_bytes=int(mean[rank]),
        )
        for rank, worker in enumerate(placement.workers)
    )


def trace_of(schedules: Sequence[Schedule], fingerprint: str, loads: tuple[WorkerLoad, ...]) -> Trace:
    """The predicted trace of a plan's epochs.

    Args:
        schedules: of the epochs that come over and over, in their order; equal ones are one object.
        fingerprint: the plan's.
    """
    peak_bytes = tuple(load.peak_bytes for load in loads)
    sent, later = (tuple(getattr(load, name) for load in loads) for name in ("sent_bytes", "reuse_sent_bytes"))
    kinds = _kinds(schedules)
    played = [predicted_trace(each, fingerprint, peak_bytes, sent) for each in kinds]
    return cycle_trace(played, [kinds.index(each) for each in schedules], later) if len(kinds) > 1 else played[0]


def _kinds(schedules: Sequence[Schedule]) -> list[Schedule]:
    """Those that differ, in the order in which they come."""
    return list({id(each): each for each in schedules}.values())


def fluctuating_of(schedules: Sequence[Schedule], num_replicas: int) -> Percentiles:
    """Epochs whose tasks vary as they were profiled to; of several kinds the mean of their figures.

    Args:
        schedules: as `trace_of` takes them.
        num_replicas: epochs to be played, of each kind; of many kinds fewer.
    """
    kinds = _kinds(schedules)
    each = max(num_replicas * _MANY_KINDS // max(len(kinds), _MANY_KINDS), 1)
    figures = [percentiles(schedule, each, seed=0) for schedule in kinds]
    weights = [sum(other is schedule for other in schedules) for schedule in kinds]
    mean = {f"{name}_s": float(np.average([kind[name] for kind in figures], weights=weights)) for name in figures[0]}
    return Percentiles(**mean)


def prediction_of(
    schedules: Sequence[Schedule],
    loads: tuple[WorkerLoad, ...],
    bound: Bound,
    schedule_bound: Bound,
) -> Prediction:
    """The figures that a plan keeps.

    Args:
        schedules, loads: as `trace_of` takes them.
        bound: of all plans.
        schedule_bound: of this plan's operators, in every single epoch.
    """
    trace = trace_of(schedules, "", loads)
    pauses = has_pauses(schedules)
    schedule_bound = sustained_bound(schedules, schedule_bound) if pauses else schedule_bound
    return Prediction(
        epoch_s=trace.median_epoch_s,
        mean_epoch_s=max(mean_epoch_s(schedules), schedule_bound.seconds) if pauses else None,
        compute_s=trace.category_s("compute"),
        communicate_s=trace.category_s("communicate"),
        host_s=trace.category_s("host"),
        bound_s=bound.seconds,
        bound_resource=bound.set_by,
        schedule_bound_s=schedule_bound.seconds,
        schedule_bound_resource=schedule_bound.set_by,
        workers=loads,
        unprofiled=tuple(sorted({task.key for each in schedules for task in each.tasks if task.unprofiled})),
        fluctuating=fluctuating_of(schedules, NUM_REPLICAS),
    )


def with_interval(prediction: Prediction, schedules: Sequence[Schedule], placement: Placement, work: str) -> Prediction:
    """The figures with the interval of the epoch.

    Args:
        schedules: as `trace_of` takes them.
        work: as `interval_of` takes it.
    """
    middle_s = prediction.expected_epoch_s
    found = interval_of(schedules, placement, middle_s, work)
    return prediction.model_copy(update={"interval": found})
