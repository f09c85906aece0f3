"""What was decided for every worker's dependencies, as a plan keeps it; which ones lie beside its partition."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.job import DependencyMode
from gnnplan.profiles.contract import Contract

Adjust = Literal["none", "online"]


class WorkerDependencies(Contract):
    """One worker's choice.

    Args:
        num_dependencies, num_cached: halo vertices at every level that travels, and those of them that are cached.
        num_staged: dependencies that may be cached while it runs: all they need is held in host memory.
        num_bytes, staged_bytes: that the replicas of those cached hold, and of all that may be.
        saved_s: seconds an epoch, against communicating everything; every replica is paid once.
        bound_s: no choice within the budget saves more by these rates.
        method: that found the choice.
        rates: predicted, that it was chosen at.
    """

    num_dependencies: NonNegativeInt
    num_cached: NonNegativeInt
    num_staged: NonNegativeInt
    num_bytes: NonNegativeInt
    staged_bytes: NonNegativeInt
    saved_s: float
    bound_s: NonNegativeFloat
    method: str
    rates: Rates

    @property
    def gap(self) -> float:
        """Share of the bound that is not saved: 0 is optimal, 1 saves nothing, more loses."""
        return 1 - self.saved_s / self.bound_s if self.bound_s > 0 else 0.0


class DependencyDecision(Contract):
    """How workers come by the rows of their halos; as it is by default they fetch all of them in every epoch.

    Args:
        mode: `communicate` all, `cache` all, or `hybrid`: each by what it costs.
        adjust: `online` decides again between epochs, from measured rates.
        latency_s: of an exchange that sends next to nothing, left out of measured rates.
    """

    mode: DependencyMode = "communicate"
    adjust: Adjust = "none"
    latency_s: NonNegativeFloat = 0.0
    workers: tuple[WorkerDependencies, ...] = ()

    @property
    def replicates(self) -> bool:
        """Whether workers make rows of others' vertices, or may while they run."""
        return self.mode != "communicate"

    @property
    def num_cached(self) -> int:
        """Dependencies cached, over all workers."""
        return sum(worker.num_cached for worker in self.workers)

    @property
    def num_dependencies(self) -> int:
        """Dependencies of all workers."""
        return sum(worker.num_dependencies for worker in self.workers)


COMMUNICATE_ALL = DependencyDecision()
