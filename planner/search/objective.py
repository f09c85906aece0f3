"""Which of the best plans of each set of workers is taken: by the job's objective, within its limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.forecast.under_weather import under_weather
from gnnplan.planner.job import Job
from gnnplan.planner.objective.spec import ObjectiveFigures, Statistic
from gnnplan.planner.partial.decision import waiting_among
from gnnplan.planner.readers.sustained import has_pauses
from gnnplan.planner.search.evaluate import has_pinned
from gnnplan.planner.search.least import Least
from gnnplan.planner.search.pins import options_of
from gnnplan.planner.search.summary import summary
from gnnplan.planner.search_spec import SearchSpec
from gnnplan.planner.simulator.montecarlo import sampled_epochs_s
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError

_NUM_REPLICAS = 300  # of a finalist's epoch
_NUM_FINALISTS = 3  # of a set of workers
_NUM_TIED = 5  # the same, beside the shortest
_NEAR = 1.1  # times the shortest epoch of a set: what is longer is no finalist
_TIED = 1.02  # times it: so near, other techniques are weighed by how much their tasks vary
_HOUR_S = 3600


Leasts: TypeAlias = list[tuple[Least, Sequence[Sequence[int]], Placement]]
"""Bounds, of which sets of workers they are asked, and the workers of which the sets are."""


@dataclass(frozen=True)
class Scored:
    """A candidate with what it comes to.

    Args:
        epoch_s: by the objective's statistic; of a plain objective that of the candidate, by which sets of workers
            are told apart.
        seconds, dollars: to all epochs.
        excess: by how much it goes over the worst of its limits, as a share of that limit (0: it keeps them).
        value: what is minimized.
    """

    candidate: Candidate
    epoch_s: float
    seconds: float
    dollars: float
    excess: float
    value: float

    @property
    def order(self) -> tuple[float, ...]:
        """Less is better: what has all pins, then what fits, then what keeps the limits, then the value."""
        if not has_pinned(self.candidate):
            return (3.0,)
        if not self.candidate.fits:
            return 2.0, float(self.candidate.missing_bytes.max())
        return (1.0, self.excess) if self.excess else (0.0, self.value, self.epoch_s)


@dataclass(frozen=True)
class Judge:
    """Weighs candidates by a job's objective."""

    job: Job

    @property
    def statistic(self) -> Statistic:
        """What of epochs is counted: of n epochs, whose seconds or dollars count, the mean n times."""
        wanted = self.job.objective
        counts_all = wanted.minimize != "epoch" or wanted.deadline_s or wanted.budget
        return wanted.statistic or ("mean" if self.job.training.weather or counts_all else "p50")

    @property
    def _by_medians(self) -> bool:
        """Whether the shortest epoch of tasks at their median is taken."""
        return self.job.objective.is_plain and self.job.training.weather is None

    @property
    def epochs(self) -> int:
        """To which time and money are counted."""
        return self.job.objective.epochs or self.job.training.epochs

    def check(self, placement: Placement) -> None:
        """`UserError` where it asks for prices and no host has one."""
        if self.job.objective.asks_for_prices and not any(worker.price_per_hour for worker in placement.workers):
            raise UserError(
                f"{self.job.name}: objective: no host of the cluster has a price; give the hosts price_per_hour in the "
                f"cluster file, or leave money and budget out"
            )

    def scored(self, candidate: Candidate) -> Scored:
        """A candidate with what it comes to."""
        is_plain = self._by_medians
        epoch_s = candidate.epoch_s if is_plain else epoch_of(self.job, candidate, self.statistic, _NUM_REPLICAS)
        seconds, dollars = self._to_all(epoch_s, candidate.setting.placement.price_per_hour)
        value = dollars if self.job.objective.minimize == "money" else epoch_s
        return Scored(candidate, epoch_s, seconds, dollars, self._excess(seconds, dollars), value)

    def keeps_limits(self, candidate: Candidate) -> bool:
        """Whether a candidate goes over none of its limits; weighed alone where a search may end with it."""
        has_limits = self.job.objective.deadline_s or self.job.objective.budget
        return not (has_limits and self.job.search != SearchSpec()) or not self.scored(candidate).excess

    def best(self, candidates: Sequence[Candidate]) -> Scored:
        """The best of some; of a plain objective, which weighs ties alone, the one whose epoch is expected to be least.

        Tasks that vary last longer together than at their median, for workers wait for the slowest of them: so much the
        longer, the more often they wait.
        """
        if not self._by_medians or len(candidates) == 1:
            return min(map(self.scored, candidates), key=lambda each: each.order)

        def expected_s(each: Candidate) -> float:
            statistic: Statistic = "mean" if has_pauses(each.schedules.values()) else self.statistic
            return epoch_of(self.job, each, statistic, _NUM_REPLICAS)

        return self.scored(min(candidates, key=expected_s))

    def finalists(self, found: Candidate, looked_at: Iterable[Candidate]) -> list[Candidate]:
        """What is worth weighing of a set of workers beside the one with the shortest epoch, which comes first."""
        if not found.fits:
            return [found]
        if self._by_medians:
            return [found, *self._tied(found, looked_at)]
        if self.job.objective.is_plain:  # a simulation of weather takes longer than a tie is worth
            return [found]
        words = {summary(found)}
        near = (each for each in looked_at if self._epoch_s(each) <= _NEAR * self._epoch_s(found))
        others: list[Candidate] = []
        for each in sorted((each for each in near if _is_rival(each, found)), key=self._epoch_s):
            if summary(each) not in words and len(others) < _NUM_FINALISTS - 1:
                words.add(summary(each))
                others.append(each)
        return [found, *others]

    def _tied(self, found: Candidate, looked_at: Iterable[Candidate]) -> list[Candidate]:
        """Of each other set of techniques the shortest, where that is nearly as short."""
        near = (each for each in looked_at if each.epoch_s <= _TIED * found.epoch_s and _is_rival(each, found))
        best = {_techniques(found): found}
        for each in sorted(near, key=lambda candidate: candidate.epoch_s):
            best.setdefault(_techniques(each), each)
        return list(best.values())[1 : _NUM_TIED + 1]

    def limit_s(self, best: Scored | None, price_per_hour: float) -> float:
        """Seconds of an epoch that workers of this price have to be below, to be better than the best so far."""
        if best is None or best.order[0]:
            return math.inf
        if self.job.objective.minimize != "money":
            return best.epoch_s
        a_second = price_per_hour / _HOUR_S * self.epochs
        return best.dollars / a_second if a_second else math.inf

    def _epoch_s(self, candidate: Candidate) -> float:
        """Of tasks at their median, whose epochs are no less by the statistic."""
        return candidate.median_epoch_s if self.statistic == "p50" else candidate.epoch_s

    def to_search_s(self, best: Scored | None, limit_s: float) -> float:
        """A limit by the statistic as an epoch of candidates, in which all pauses count."""
        if best is None or self._by_medians:
            return limit_s
        return limit_s * max(1.0, best.candidate.epoch_s / best.epoch_s)

    def least_epoch_s(self, least: Least, ranks: Sequence[int]) -> float:
        """No plan of these workers has shorter epochs, as they are counted.

        Under a quota most epochs may have no pause, and only the mean of a long run has all of them. A run that is
        played under weather may be short of some.
        """
        if self.statistic == "p50" and not self._by_medians:
            return least.without_sum_s(ranks)
        has_all = self.job.training.weather is None and (self._by_medians or self.statistic == "mean")
        return least.seconds(ranks) if has_all else least.without_pauses_s(ranks)

    def least(self, leasts: Leasts) -> float:
        """What no plan of any of these sets, that keeps the limits, is better than: seconds or dollars.

        Epochs that vary last no less, by any of the statistics, than the bound on epochs of tasks at their median.
        """
        values = []
        for least, ranks, placement in ((each, ranks, place) for each, sets, place in leasts for ranks in sets):
            epoch_s = self.least_epoch_s(least, ranks)
            seconds, dollars = self._to_all(epoch_s, placement.of(ranks).price_per_hour)
            if not self._excess(seconds, dollars):
                values.append({"money": dollars, "time": seconds, "epoch": epoch_s}[self.job.objective.minimize])
        return min(values, default=0.0)

    def figures(self, best: Candidate, least: float) -> ObjectiveFigures | None:
        """What a plan keeps of it; None of a plain objective."""
        wanted = self.job.objective
        if wanted.is_plain:
            return None
        scored = self.scored(best)
        return ObjectiveFigures(
            minimize=wanted.minimize,
            statistic=self.statistic,
            epochs=self.epochs,
            seconds=scored.seconds,
            dollars=scored.dollars,
            deadline_s=wanted.deadline_s,
            budget=wanted.budget,
            least=least,
        )

    def _to_all(self, epoch_s: float, price_per_hour: float) -> tuple[float, float]:
        seconds = epoch_s * self.epochs
        return seconds, seconds * price_per_hour / _HOUR_S

    def _excess(self, seconds: float, dollars: float) -> float:
        wanted = self.job.objective
        pairs = ((seconds, wanted.deadline_s), (dollars, wanted.budget))
        return max((value / limit - 1 for value, limit in pairs if limit and value > limit), default=0.0)


def _techniques(candidate: Candidate) -> frozenset[str]:
    return frozenset(choice.technique for choice in candidate.choices)


def _is_rival(candidate: Candidate, found: Candidate) -> bool:
    """Whether it fits, and has all that what was found has to have: a search also looks at what leaves out a pin."""
    missing = (technique(name) for name in _techniques(found) - _techniques(candidate))
    return candidate.fits and all(
        LAYOUT in each.claims or None in options_of(each, found.setting, found) for each in missing
    )


def epoch_of(job: Job, candidate: Candidate, statistic: Statistic, num_replicas: int) -> float:
    """Seconds of an epoch by a statistic, mean over the cycle; under the job's weather where it has some.

    Raises `UserError` where it asks for a p50 under weather, which the simulation of runs has none of.
    """
    in_order = [candidate.schedules[name] for name in candidate.cycle.order]
    if job.training.weather is not None:
        if statistic == "p50":
            raise UserError(f"{job.name}: objective.statistic: under weather there are p95 and mean; take one of these")
        waiting = waiting_among(choice.decision for choice in candidate.choices)
        weather = under_weather(job, in_order, candidate.median_epoch_s, waiting)
        assert weather is not None
        return weather.p95_epoch_s if statistic == "p95" else weather.mean_epoch_s
    of_program = {}
    for name, schedule in candidate.schedules.items():
        epochs_s = sampled_epochs_s(schedule, num_replicas, seed=0)
        of_program[name] = _of_statistic(epochs_s, statistic)
    epoch_s = sum(candidate.shares[name] * seconds for name, seconds in of_program.items())
    # So many epochs, played on end, may be short of a pause that a longer run is not spared.
    return max(epoch_s, candidate.epoch_s) if statistic == "mean" else epoch_s


def _of_statistic(epochs_s: np.ndarray, statistic: Statistic) -> float:
    if statistic == "mean":
        return float(np.mean(epochs_s))
    return float(np.percentile(epochs_s, {"p50": 50, "p95": 95}[statistic]))


def refuse(best: Scored, job: Job, epochs: int, statistic: str) -> None:
    """`NoPlanFitsError` where the best goes over a limit, with how far the nearest misses it."""
    wanted = job.objective
    if not best.excess:
        return
    lines = []
    if wanted.deadline_s and best.seconds > wanted.deadline_s:
        over = best.seconds - wanted.deadline_s
        lines.append(f"{best.seconds:,.4g} s, {over:,.3g} s more than the deadline of {wanted.deadline_s:,.6g} s")
    if wanted.budget and best.dollars > wanted.budget:
        over = best.dollars - wanted.budget
        lines.append(f"{best.dollars:,.4g} dollars, {over:,.3g} more than the budget of {wanted.budget:,.6g}")
    raise NoPlanFitsError(
        f"no plan keeps the limits: the nearest needs {' and '.join(lines)}, for {epochs:,} epochs by {statistic}, on "
        f"{summary(best.candidate).split(';')[0]}; allow more, train fewer epochs, or add or change workers"
    )
