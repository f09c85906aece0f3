"""What fluctuates: the paper's injected sleeps, or a two-state Markov model of every worker."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_EPOCHS, MAX_WORKERS, Epochs, SomeSeconds

Share = Annotated[float, Field(gt=0, le=1)]


class SleepWeather(Contract):
    """Workers sleep now and then, half before the forward and half before the backward pass; the runtime injects it.

    As it is by default section 6.1 of NeutronCloud (PVLDB 19(1), 2025): 10% of a worker's epochs take 5 s more.
    Section 2.1 is `sleep_epochs = 2`, `duration_epochs = 5`: twice the epoch more, five epochs on end. The first
    epochs, which measure what is usual, are without.

    Args:
        probability: that an epoch of a worker begins a spell of sleeps, independently of all others.
        sleep_s: slept in each epoch of a spell (5 where neither is given).
        sleep_epochs: slept instead, in predicted epochs of the plan.
        duration_epochs: of a spell; where spells overlap a worker sleeps once an epoch.
        seed: draws the same spells in the simulator and in the runtime.
    """

    kind: Literal["sleep"] = "sleep"
    probability: Annotated[float, Field(ge=0, le=1)] = 0.1
    sleep_s: SomeSeconds | None = None
    sleep_epochs: Annotated[float, Field(gt=0, le=MAX_EPOCHS)] | None = None
    duration_epochs: Epochs = 1
    seed: NonNegativeInt = 0

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.sleep_s is not None and self.sleep_epochs is not None:
            raise ValueError("give sleep_s or sleep_epochs, not both")
        return self

    def seconds(self, epoch_s: float) -> float:
        """Slept in one epoch of a spell, where the plan predicts epochs of `epoch_s`."""
        if self.sleep_epochs is not None:
            return self.sleep_epochs * epoch_s
        return 5.0 if self.sleep_s is None else self.sleep_s


class TwoState(Contract):
    """A rate that is either fair or only a share of it, for exponentially distributed times.

    Args:
        share: of the fair rate that is left in a slow spell.
        fair_s, slow_s: mean seconds that fair and slow spells last.
    """

    share: Share
    fair_s: SomeSeconds
    slow_s: PositiveFloat


class WorkerWeather(Contract):
    """How one worker's processor and link fluctuate (None: not at all)."""

    compute: TwoState | None = None
    link: TwoState | None = None


class MarkovWeather(Contract):
    """Two-state Markov models of every worker: what its machine does by itself. Simulated, never injected.

    Args:
        workers: by rank.
    """

    kind: Literal["markov"] = "markov"
    workers: tuple[WorkerWeather, ...] = Field(min_length=1, max_length=MAX_WORKERS)
    seed: NonNegativeInt = 0


ModelledWeather = Annotated[SleepWeather | MarkovWeather, Field(discriminator="kind")]


class WeatherFigures(Contract):
    """Epochs of a plan under its job's weather, over replicas of a run; the warm-up is left out.

    Args:
        mean_epoch_s, p95_epoch_s: over all epochs of all replicas.
        p95_run_epoch_s: 95th percentile over replicas of a run's mean epoch.
        delay_s: mean epoch less a fair one's: the fluctuation-induced delay.
        mean_members: workers that take part in a step.
        max_age: epochs, of the oldest rows or gradients used.
    """

    mean_epoch_s: PositiveFloat
    p95_epoch_s: PositiveFloat
    p95_run_epoch_s: PositiveFloat
    delay_s: float
    mean_members: PositiveFloat
    max_age: NonNegativeInt
