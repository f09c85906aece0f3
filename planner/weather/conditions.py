"""What workers run under in one replica of a run: rates that change at moments, and sleeps by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.emulation.weather import Weather
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, TwoState
from gnnplan.planner.weather.sleeps import sleeps_s
from gnnplan.profiles.errors import UserError

_MOST_CHANGES = 10_000  # of one rate in a run, about: more cost minutes to draw and say nothing new


@dataclass(frozen=True)
class Conditions:
    """Of W workers, in E epochs, whose rates change at most C times.

    Args:
        change_s: float64 [W, C], ascending, infinity where there are fewer changes.
        compute, link: float64 [W, C + 1] in (0, 1], share of the fair rate before each change, and after the last.
        sleep_s: float64 [W, E].
    """

    change_s: np.ndarray
    compute: np.ndarray
    link: np.ndarray
    sleep_s: np.ndarray


def fair(num_workers: int, num_epochs: int) -> Conditions:
    """Nothing fluctuates."""
    ones = np.ones((num_workers, 1))
    return Conditions(np.empty((num_workers, 0)), ones, ones.copy(), np.zeros((num_workers, num_epochs)))


def under_sleeps(
    weather: SleepWeather, num_workers: int, num_epochs: int, epoch_s: float, replica: int = 0
) -> Conditions:
    """Fair rates, and the sleeps of `sleeps_s`; those of replica 0 are what the runtime injects."""
    fair_rates = fair(num_workers, num_epochs)
    slept = np.stack([sleeps_s(weather, worker, num_epochs, epoch_s, replica) for worker in range(num_workers)])
    return Conditions(fair_rates.change_s, fair_rates.compute, fair_rates.link, slept)


def under_markov(weather: MarkovWeather, num_epochs: int, epoch_s: float, replica: int = 0) -> Conditions:
    """Rates drawn from the workers' two-state models, for as long as a run could take that is slow throughout.

    Raises `UserError` where spells are too short, or slow ones too slow, for so many epochs.
    """
    least = min((state.share for w in weather.workers for state in (w.compute, w.link) if state), default=1.0)
    until_s = num_epochs * epoch_s / least
    _check_changes(weather, until_s)
    rates = []
    for rank, worker in enumerate(weather.workers):
        states = enumerate((worker.compute, worker.link))
        rates.append([_two_state(state, until_s, (weather.seed, replica, rank, which)) for which, state in states])
    return _merged(rates, num_epochs)


def under_spells(
    weather: Weather, hosts: Sequence[str], num_epochs: int, begin_s: float = 0.0, *, limited: Sequence[bool]
) -> Conditions:
    """The rates of an emulated cluster's weather file, by each worker's host.

    Every link counts as limited, though the emulation changes none that its cluster file leaves unlimited.

    Args:
        limited: by worker, whether its processor time is; else spells leave it alone.
        begin_s: after the command's start, when training begins.
    """
    moments = [at_s for at_s in weather.change_times_s() if at_s > begin_s]
    rates = []
    for host, is_limited in zip(hosts, limited, strict=True):
        factors = [weather.factors(host, at_s) for at_s in (begin_s, *moments)]
        factors = [(cpu if is_limited else 1.0, link) for cpu, link in factors]
        rates.append([(np.array(moments) - begin_s, np.array(shares)) for shares in zip(*factors)])
    return _merged(rates, num_epochs)


_Rate = tuple[np.ndarray, np.ndarray]  # moments of change [c], shares before each and after the last [c + 1]


def _check_changes(weather: MarkovWeather, until_s: float) -> None:
    for rank, worker in enumerate(weather.workers):
        for name, state in (("compute", worker.compute), ("link", worker.link)):
            if state and 2 * until_s / (state.fair_s + state.slow_s) > _MOST_CHANGES:
                raise UserError(
                    f"training.weather: {name} of worker {rank} would change more than {_MOST_CHANGES:,} times in the "
                    f"{until_s:.3g} s that a run may take; give longer spells (fair_s, slow_s) or larger shares"
                )


def _two_state(state: TwoState | None, until_s: float, seed: tuple[int, ...]) -> _Rate:
    if state is None:
        return np.empty(0), np.ones(1)
    rng = np.random.default_rng(seed)
    slow = bool(rng.random() < state.slow_s / (state.fair_s + state.slow_s))
    moments: list[float] = []
    shares, now_s = [state.share if slow else 1.0], 0.0
    while True:
        now_s += rng.exponential(state.slow_s if slow else state.fair_s)
        if now_s >= until_s:
            return np.array(moments), np.array(shares)
        slow = not slow
        moments.append(now_s)
        shares.append(state.share if slow else 1.0)


def _merged(rates: list[list[_Rate]], num_epochs: int) -> Conditions:
    """Both rates of every worker at the moments at which either changes."""
    moments = [np.unique(np.concatenate([compute[0], link[0]])) for compute, link in rates]
    most = max((len(each) for each in moments), default=0)
    change_s = np.full((len(rates), most), np.inf)
    shares = np.ones((2, len(rates), most + 1))
    for worker, (when, both) in enumerate(zip(moments, rates)):
        change_s[worker, : len(when)] = when
        for which, (changes, values) in enumerate(both):
            pieces = np.searchsorted(changes, when, side="right")
            shares[which, worker, 0] = values[0]
            shares[which, worker, 1 : len(when) + 1] = values[pieces]
            shares[which, worker, len(when) + 1 :] = values[-1]
    return Conditions(change_s, shares[0], shares[1], np.zeros((len(rates), num_epochs)))
