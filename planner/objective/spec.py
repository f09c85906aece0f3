"""The objective of a job: what is least of the plan that is chosen, and which limits it keeps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import Epochs, TrainingSeconds

Minimize = Literal["epoch", "time", "money"]
Statistic = Literal["p50", "p95", "mean"]
Dollars = Annotated[float, Field(gt=0, le=1e12)]


class ObjectiveSpec(Contract):
    """What a plan is chosen for.

    Args:
        minimize: seconds an `epoch`; `time`, seconds to a number of epochs; or `money`, dollars to as many, by the
            hosts' price_per_hour.
        epochs: to which time, money and limits are counted (None: those of the training).
        statistic: of epochs whose tasks vary as they were profiled to, and under the job's weather: half of them are
            within `p50`, 95% within `p95`, or their `mean` (None: the mean where time, money or a limit counts and
            under weather, else p50). Time and money are that of as many such epochs.
        deadline_s: seconds in which the epochs have to be done.
        budget: dollars that they may cost.
        memory_margin: share of every worker's memory that stays free.
    """

    minimize: Minimize = "epoch"
    epochs: Epochs | None = None
    statistic: Statistic | None = None
    deadline_s: TrainingSeconds | None = None
    budget: Dollars | None = None
    memory_margin: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether the shortest epoch is taken, with tasks at their median, and no time or money is limited."""
        return self.minimize == "epoch" and not (self.statistic or self.deadline_s or self.budget)

    @property
    def asks_for_prices(self) -> bool:
        """Whether it cannot be weighed without prices."""
        return self.minimize == "money" or self.budget is not None


class ObjectiveFigures(Contract):
    """What the plan comes to by the objective that it was chosen for.

    Args:
        statistic: what of epochs was counted.
        epochs: to which.
        seconds, dollars: to as many epochs, setup left out.
        least: seconds or dollars. No plan of any set of workers that was searched and keeps the limits is better.
    """

    minimize: Minimize
    statistic: Statistic
    epochs: Epochs
    seconds: TrainingSeconds
    dollars: Annotated[float, Field(ge=0)]
    deadline_s: TrainingSeconds | None = None
    budget: Dollars | None = None
    least: Annotated[float, Field(ge=0)]

    @property
    def gap(self) -> float:
        """How far what is minimized is from `least`."""
        value = self.dollars if self.minimize == "money" else self.seconds
        value = value / self.epochs if self.minimize == "epoch" else value
        return value / self.least - 1 if self.least else 0.0
