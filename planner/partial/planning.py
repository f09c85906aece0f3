"""What partial reduce and the weather add to a plan: decision, memory and figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.halo import Halo
from gnnplan.planner.job import Job
from gnnplan.planner.partial.contributing import contributing_with_halo
from gnnplan.planner.partial.decide import choose_partial_reduce
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.memory import mailbox_bytes_of, mean_bytes, on_device
from gnnplan.planner.plan import Plan, WorkerLoad
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.weather.model import WeatherFigures
from gnnplan.planner.weather.partial_epochs import aligned_sections
from gnnplan.planner.weather.play import figures, replicas_of
from gnnplan.planner.weather.simulate import player


def without_kept_rows(job: Job) -> Job:
    """The job as its halo exchange is planned: partial reduce keeps rows of its own, and waits for each exchange."""
    if job.pin.partial_reduce is None:
        return job
    return job.model_copy(update={"pin": job.pin.model_copy(update={"feature_cache": False, "overlap": False})})


def planned_partial_reduce(
    job: Job, schedule: Schedule, epoch_s: float, halo: Halo, train_mask: np.ndarray
) -> PartialReduceDecision | None:
    """The decision; None where the job does not pin it, or a single worker has nobody to wait for.

    Args:
        schedule: one epoch of halo exchange, predicted to take `epoch_s`.
    """
    if job.pin.partial_reduce is None or halo.num_workers == 1:
        return None
    contributing = contributing_with_halo(halo, train_mask, job.model)
    return choose_partial_reduce(job, aligned_sections(schedule, epoch_s), epoch_s, contributing)


def under_weather(
    job: Job, cycle: Sequence[Schedule], epoch_s: float, partial: PartialReduceDecision | None
) -> WeatherFigures | None:
    """Epochs that follow each other over and over under the job's weather; None where it names none."""
    if job.training.weather is None:
        return None
    conditions_of = replicas_of(job.training.weather, cycle[0].num_workers, job.training.epochs, epoch_s)
    return figures(player(cycle, epoch_s, partial), conditions_of)


def with_mailboxes(plan: Plan) -> Plan:
    """The plan with what partial reduce holds in host memory, for which its choice has left room.

    Of a plan with a program it is counted already.
    """
    if plan.layered.partial is None or plan.cycle is not None:
        return plan
    mean = mean_bytes(plan.program(), plan.layered.partial.average_epochs)
    loads = tuple(_with_mailbox(plan, rank, mailbox_bytes_of(plan, rank), mean) for rank in range(plan.num_workers))
    return plan.model_copy(update={"prediction": plan.prediction.model_copy(update={"workers": loads})})


def _with_mailbox(plan: Plan, rank: int, num_bytes: int, mean: int) -> WorkerLoad:
    load = plan.prediction.workers[rank]
    held = on_device(num_bytes, plan.placement, rank) + mean
    return load.model_copy(update={"peak_bytes": load.peak_bytes + held})
