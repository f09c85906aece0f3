"""What the simulator says of a plan's epochs, and what each worker holds and sends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.interval.predict import interval_of
from gnnplan.planner.plan import Prediction, WorkerLoad
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.cost import sent_bytes
from gnnplan.planner.readers.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.montecarlo import percentiles
from gnnplan.planner.simulator.play import interval_trace, predicted_trace
from gnnplan.planner.trace import Percentiles, Trace

NUM_REPLICAS = 1000  # of an epoch; `plan` and `simulate` show the same figures for they play as many


def loads_of(cycle: Cycle, placement: Placement, memory: Sequence[MemoryEstimate] = ()) -> tuple[WorkerLoad, ...]:
    """Peak bytes of every worker, and what it sends in each kind of epoch.

    Args:
        memory: of every worker, where it was read before.
    """
    memory = memory or [estimate_memory(cycle, rank, placement.profile_of(rank)) for rank in cycle.workers]
    sent = [sent_bytes(cycle, name).tolist() for name in dict.fromkeys(cycle.order)]
    return tuple(
        WorkerLoad(
            peak_bytes=memory[rank].peak_bytes,
            capacity_bytes=worker.memory_bytes,
            sent_bytes=sent[0][rank],
            reuse_sent_bytes=sent[-1][rank] if len(sent) > 1 else 0,
        )
        for rank, worker in enumerate(placement.workers)
    )


def trace_of(
    schedules: Sequence[Schedule], fingerprint: str, loads: tuple[WorkerLoad, ...], refresh_interval: int
) -> Trace:
    """The predicted trace of a plan's epochs.

    Args:
        schedules: of an epoch that sends everything, and of one that reuses rows where there are such.
        fingerprint: the plan's.
    """
    peak_bytes = tuple(load.peak_bytes for load in loads)
    sent = [tuple(load.sent_bytes for load in loads), tuple(load.reuse_sent_bytes for load in loads)]
    first, *others = (predicted_trace(each, fingerprint, peak_bytes, bytes_) for each, bytes_ in zip(schedules, sent))
    return interval_trace(first, others[0], refresh_interval) if others else first


def fluctuating_of(schedules: Sequence[Schedule], num_replicas: int, refresh_interval: int) -> Percentiles:
    """Epochs whose tasks vary as they were profiled to; with a refresh interval the mean of its epochs' figures.

    Args:
        schedules, refresh_interval: as `trace_of` takes them.
        num_replicas: epochs to be played.
    """
    figures = [percentiles(schedule, num_replicas, seed=0) for schedule in schedules]
    weights = (1, refresh_interval - 1)[: len(schedules)]
    mean = {f"{name}_s": float(np.average([kind[name] for kind in figures], weights=weights)) for name in figures[0]}
    return Percentiles(**mean)


def prediction_of(
    schedules: Sequence[Schedule],
    loads: tuple[WorkerLoad, ...],
    bound: Bound,
    schedule_bound: Bound,
    refresh_interval: int,
) -> Prediction:
    """The figures that a plan keeps.

    Args:
        schedules, loads, refresh_interval: as `trace_of` takes them.
        bound: of all plans.
        schedule_bound: of this plan's operators.
    """
    trace = trace_of(schedules, "", loads, refresh_interval)
    return Prediction(
        epoch_s=trace.median_epoch_s,
        compute_s=trace.category_s("compute"),
        communicate_s=trace.category_s("communicate"),
        host_s=trace.category_s("host"),
        bound_s=bound.seconds,
        bound_resource=bound.set_by,
        schedule_bound_s=schedule_bound.seconds,
        schedule_bound_resource=schedule_bound.set_by,
        workers=loads,
        unprofiled=tuple(sorted({task.key for each in schedules for task in each.tasks if task.unprofiled})),
        fluctuating=fluctuating_of(schedules, NUM_REPLICAS, refresh_interval),
    )


def with_interval(
    prediction: Prediction, schedules: Sequence[Schedule], refresh_interval: int, placement: Placement, work: str
) -> Prediction:
    """The figures with the interval of the epoch.

    Args:
        schedules, refresh_interval: as `trace_of` takes them.
        work: as `interval_of` takes it.
    """
    middle_s = prediction.expected_epoch_s
    found = interval_of(schedules, refresh_interval, placement, middle_s, work)
    return prediction.model_copy(update={"interval": found})
