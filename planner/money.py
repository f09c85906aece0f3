"""What a job comes to on a cluster: hours and dollars for all its epochs."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.planner.plan import Plan


@dataclass(frozen=True)
class Cost:
    """Of all epochs of a job; setup is not in it.

    Args:
        dollars: of the hosts that have a worker, by their price an hour (0: none has a price).
    """

    seconds: float
    dollars: float

    @property
    def hours(self) -> float:
        """Seconds in hours."""
        return self.seconds / 3600


@dataclass(frozen=True)
class Choice:
    """A cluster that a job might train on, and what it would come to there.

    Args:
        plan: written, or None where `reason` says why there is none.
    """

    name: str
    plan: Plan | None
    reason: str = ""


def cost_of(plan: Plan) -> Cost:
    """What the job of a plan is predicted to come to."""
    seconds = plan.job.training.epochs * plan.prediction.each_of_many_s
    return Cost(seconds, plan.placement.price_per_hour * seconds / 3600)


def headroom(plan: Plan) -> float:
    """Of the memory of the worker that has least of it left, the share that is left."""
    return min(1 - load.peak_bytes / load.capacity_bytes for load in plan.prediction.workers)
