"""Epochs of a plan played one after another under weather: mean, 95th percentile and delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.weather.conditions import Conditions, fair, under_markov, under_sleeps
from gnnplan.planner.weather.model import MarkovWeather, ModelledWeather, WeatherFigures
from gnnplan.profiles.errors import UserError

NUM_REPLICAS = 100
_MOST_EPOCHS = 200  # of a replica: by then a run has seen what a longer one sees


@dataclass(frozen=True)
class Run:
    """One run of E epochs.

    Args:
        epoch_s: float64 [E], from one step's end to the next one's.
        num_members: int64 [E], workers that took part in each step.
        oldest: int64 [E], epochs, age of the oldest rows or gradients used.
    """

    epoch_s: np.ndarray
    num_members: np.ndarray
    oldest: np.ndarray


class Player(Protocol):
    """Plays runs of a plan."""

    @property
    def num_workers(self) -> int:
        """W."""

    def play(self, conditions: Conditions) -> Run:
        """One run, of as many epochs as the conditions are for."""


def replicas_of(
    weather: ModelledWeather, num_workers: int, num_epochs: int, epoch_s: float
) -> Callable[[int], Conditions]:
    """What the workers run under in each replica, by its number; sleeps of replica 0 are the runtime's.

    Raises `UserError` where a Markov model is of another number of workers.
    """
    num_epochs = min(num_epochs, _MOST_EPOCHS)
    if isinstance(weather, MarkovWeather):
        if len(weather.workers) != num_workers:
            raise UserError(
                f"training.weather describes {len(weather.workers)} workers, the plan has {num_workers}; fit it again"
            )
        return lambda replica: under_markov(weather, num_epochs, epoch_s, replica)
    return lambda replica: under_sleeps(weather, num_workers, num_epochs, epoch_s, replica)


def figures(
    player: Player, conditions_of: Callable[[int], Conditions], num_replicas: int = NUM_REPLICAS
) -> WeatherFigures:
    """What replicas 0, 1, ... of a run say; the delay is counted from a fair run."""
    runs = [player.play(conditions_of(replica)) for replica in range(num_replicas)]
    num_epochs = len(runs[0].epoch_s)
    first = min(WARM_UP_EPOCHS, num_epochs - 1)
    epoch_s = np.stack([run.epoch_s[first:] for run in runs])
    fair_s = player.play(fair(player.num_workers, num_epochs)).epoch_s[first:].mean()
    return WeatherFigures(
        mean_epoch_s=float(epoch_s.mean()),
        p95_epoch_s=float(np.percentile(epoch_s, 95)),
        p95_run_epoch_s=float(np.percentile(epoch_s.mean(1), 95)),
        delay_s=float(epoch_s.mean() - fair_s),
        mean_members=float(np.mean([run.num_members[first:].mean() for run in runs])),
        max_age=max(int(run.oldest.max()) for run in runs),
    )
