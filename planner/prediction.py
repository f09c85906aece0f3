"""What the simulator says of a plan, as the plan keeps it."""

from __future__ import annotations

from pydantic import Field

from gnnplan.planner.interval.interval import Interval
from gnnplan.planner.objective.spec import ObjectiveFigures
from gnnplan.planner.trace import Percentiles
from gnnplan.planner.weather.model import WeatherFigures
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import Bytes, Seconds, SomeSeconds


class WorkerLoad(Contract):
    """Peak memory of one worker beside what it has, and what it sends in one epoch.

    `sent_bytes` is sent in the first epoch of a cycle, and `reuse_sent_bytes` in the mean of those after it (0 where
    there are none): where halo embeddings are reused, these reuse them.
    """

    peak_bytes: int = Field(ge=0)
    capacity_bytes: Bytes
    sent_bytes: int = Field(ge=0)
    reuse_sent_bytes: int = Field(default=0, ge=0)

    @property
    def used_share(self) -> float:
        """Of its memory (0: it is not known how much that is)."""
        return self.peak_bytes / self.capacity_bytes if self.capacity_bytes else 0.0

    def mean_sent_bytes(self, refresh_interval: int) -> float:
        """Sent in an epoch, mean over a refresh interval."""
        return (self.sent_bytes + (refresh_interval - 1) * self.reuse_sent_bytes) / refresh_interval


class Prediction(Contract):
    """What the simulator says of the plan.

    Args:
        epoch_s: simulated makespan of one epoch (mean over a refresh interval).
        mean_epoch_s: what an epoch of a long run takes in the mean, which bounds speak of (None: no worker has a quota
            of processor time, and it is `epoch_s`).
        compute_s, communicate_s, host_s: mean seconds a worker spends on each; waiting for a
            peer counts as communication.
        bound_s: no plan of any set of these workers has shorter epochs; `bound_resource` says what sets it.
        schedule_bound_s: no order and no lanes of this plan's operators have shorter epochs;
            `schedule_bound_resource` says what sets it.
        unprofiled: task keys whose shapes lie outside the profile.
        weather: epochs under the job's weather (None: it names none).
        fluctuating: epochs whose tasks vary as they were profiled to (None: not simulated).
        objective: what the plan comes to by the job's objective (None: the shortest epoch, without limits).
        interval: where the median epoch of a run is expected (None: of mini-batches, for which none is known).
    """

    epoch_s: SomeSeconds
    mean_epoch_s: SomeSeconds | None = None
    compute_s: Seconds
    communicate_s: Seconds
    host_s: Seconds
    bound_s: Seconds
    bound_resource: str
    schedule_bound_s: float = Field(ge=0)
    schedule_bound_resource: str
    workers: tuple[WorkerLoad, ...] = Field(min_length=1)
    unprofiled: tuple[str, ...] = ()
    weather: WeatherFigures | None = None
    fluctuating: Percentiles | None = None
    interval: Interval | None = None
    objective: ObjectiveFigures | None = None

    @property
    def expected_epoch_s(self) -> float:
        """The median of the epochs that fluctuate where these were simulated: what a run is compared with."""
        return self.fluctuating.p50_s if self.fluctuating else self.epoch_s

    @property
    def long_run_epoch_s(self) -> float:
        """Simulated seconds of n epochs on end over n, for large n."""
        return self.epoch_s if self.mean_epoch_s is None else self.mean_epoch_s

    @property
    def each_of_many_s(self) -> float:
        """What n epochs take, over n: under weather and quotas the mean, else the epoch that is expected.

        Where a quota stops most epochs, the median one is longer than the mean.
        """
        if self.weather is not None:
            return self.weather.mean_epoch_s
        return self.expected_epoch_s if self.mean_epoch_s is None else self.mean_epoch_s

    @property
    def p95_s(self) -> float | None:
        """What 95 of 100 epochs are within, under the job's weather where it names one (None: not simulated)."""
        if self.weather is not None:
            return self.weather.p95_epoch_s
        return self.fluctuating.p95_s if self.fluctuating else None

    @property
    def gap(self) -> float:
        """How far the plan is from the bound of all plans: simulated / bound - 1."""
        return self.long_run_epoch_s / self.bound_s - 1 if self.bound_s else 0.0

    @property
    def schedule_gap(self) -> float:
        """How far the plan is from the bound of its own operators: simulated / bound - 1."""
        return self.long_run_epoch_s / self.schedule_bound_s - 1 if self.schedule_bound_s else 0.0
