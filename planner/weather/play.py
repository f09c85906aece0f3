"""Epochs of a plan played one after another under weather: mean, 95th percentile and delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.weather.conditions import Conditions, fair, under_markov, under_sleeps
from gnnplan.planner.weather.model import MarkovWeather, ModelledWeather, WeatherFigures
from gnnplan.planner.weather.rounds import Work, new_state, play_run
from gnnplan.planner.weather.sections import Sections, sections_of
from gnnplan.profiles.errors import UserError

NUM_REPLICAS = 100
_MOST_EPOCHS = 200  # of a replica: by then a run has seen what a longer one sees


class Waiting(NamedTuple):
    """How a run waits: the numbers of a `PartialReduceDecision`."""

    alpha: float
    max_staleness: int
    min_group: int
    closing_epochs: int = 1

    @classmethod
    def of(cls, decision: PartialReduceDecision) -> Waiting:
        """Those of a decision."""
        return cls(decision.alpha, decision.max_staleness, decision.min_group, decision.closing_epochs)


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


def play(sections: Sections, conditions: Conditions, waiting: Waiting | None = None) -> Run:
    """Plays one run; without `waiting` every exchange and every step is a collective among all."""
    num_workers, num_exchanges = sections.num_workers, len(sections.transfer_s) - 1
    num_epochs = conditions.sleep_s.shape[1]
    assert len(conditions.compute) == num_workers, (conditions.compute.shape, num_workers)
    end_s = np.zeros(num_epochs)
    num_members, oldest = (np.zeros(num_epochs, np.int64) for _ in range(2))
    work = Work(
        sections.compute_s,
        sections.transfer_s,
        sections.backward,
        conditions.change_s,
        conditions.compute,
        conditions.link,
        conditions.sleep_s,
    )
    alpha, max_staleness, min_group, closing_epochs = waiting or Waiting(0.0, 0, num_workers)
    state = new_state(num_workers, num_exchanges)
    rule = float(alpha), max_staleness, min_group, num_epochs - closing_epochs
    play_run(work, state, waiting is None, *rule, end_s, num_members, oldest)
    return Run(np.diff(end_s, prepend=0.0), num_members, oldest)


def aligned_sections(schedule: Schedule, epoch_s: float) -> Sections:
    """The sections of a schedule, all scaled so that a fair epoch takes `epoch_s`.

    The event engine knows CPU quotas and their bursts, sections do not: its epoch is taken over as a whole.
    """
    sections = sections_of(schedule)
    plain_s = float(play(sections, fair(sections.num_workers, 2)).epoch_s[-1])
    return sections.scaled(epoch_s / plain_s) if plain_s > 0 else sections


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
    sections: Sections,
    conditions_of: Callable[[int], Conditions],
    waiting: Waiting | None = None,
    num_replicas: int = NUM_REPLICAS,
) -> WeatherFigures:
    """What replicas 0, 1, ... of a run say; a fair run under the same rule is what the delay is counted from."""
    runs = [play(sections, conditions_of(replica), waiting) for replica in range(num_replicas)]
    num_epochs = len(runs[0].epoch_s)
    first = min(WARM_UP_EPOCHS, num_epochs - 1)
    epoch_s = np.stack([run.epoch_s[first:] for run in runs])
    fair_s = play(sections, fair(sections.num_workers, num_epochs), waiting).epoch_s[first:].mean()
    return WeatherFigures(
        mean_epoch_s=float(epoch_s.mean()),
        p95_epoch_s=float(np.percentile(epoch_s, 95)),
        p95_run_epoch_s=float(np.percentile(epoch_s.mean(1), 95)),
        delay_s=float(epoch_s.mean() - fair_s),
        mean_members=float(np.mean([run.num_members[first:].mean() for run in runs])),
        max_age=max(int(run.oldest.max()) for run in runs),
    )
