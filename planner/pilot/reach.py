"""Which family reaches an accuracy sooner, or for less money: epochs by its curve, seconds by its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gnnplan.planner.fidelity import of_training
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.pilot.contract import Curve, Family, Pilots, family_of, label
from gnnplan.planner.pilot.variants import fidelity_of, told_of
from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import UserError

_HOUR_S = 3600
_NONE = ObjectiveSpec()
By = Literal["time", "money"]


@dataclass(frozen=True)
class Way:
    """One plan's way to an accuracy.

    Args:
        epochs: that it takes (None: its curve was not long enough to tell).
        curve: that says so.
        epoch_s: predicted, of many.
        price_per_hour: of the hosts that the plan uses.
    """

    curve: Curve
    epochs: int | None
    epoch_s: float
    price_per_hour: float

    @property
    def family(self) -> Family:
        """That it trains by."""
        return self.curve.family

    @property
    def words(self) -> str:
        """The same in words, with its variant."""
        return self.curve.words

    @property
    def seconds(self) -> float | None:
        """To the accuracy, setup left out."""
        return None if self.epochs is None else self.epochs * self.epoch_s

    @property
    def least_s(self) -> float:
        """It takes no less: a curve that ends before the accuracy says at least that."""
        return (len(self.curve.accuracies) + 1 if self.epochs is None else self.epochs) * self.epoch_s

    def dollars(self, seconds: float) -> float:
        """That its hosts cost for so long."""
        return seconds * self.price_per_hour / _HOUR_S


@dataclass(frozen=True)
class Reached:
    """What plans of several families come to at an accuracy.

    Args:
        ways: of every plan, in the order in which they were given.
        best: whose seconds, or dollars, are least (None: no curve came so far).
        is_sure: no other could be better, however its curve went on.
        over: ways that come to it beyond a limit, each with words that say so.
    """

    accuracy: float
    by: By
    ways: tuple[Way, ...]
    best: Way | None
    is_sure: bool
    over: tuple[str, ...] = ()

    def words(self) -> str:
        """What is chosen in a sentence, and in another what the curves were too short to tell."""
        short = [way for way in self.ways if way.epochs is None]
        told = [
            f"The curve of {way.words} was not long enough to tell: it came to {way.curve.best:.1%} in "
            f"{len(way.curve.accuracies)} epochs; give the pilot more epochs."
            for way in short
        ]
        told = [*self.over, *told]
        if self.best is None:
            none = f"No family came to {self.accuracy:.1%}" + (" within the limits." if self.over else ".")
            return " ".join([none, *told])
        assert self.best.seconds is not None
        figure = f"{self.best.seconds:,.4g} s"
        if self.by == "money":
            figure = f"{self.best.dollars(self.best.seconds):,.4g} dollars"
        chosen = f"By {self.best.words} the accuracy {self.accuracy:.1%} takes {self.best.epochs} epochs, {figure}."
        if self.is_sure and short:
            more = "costs more" if self.by == "money" else "takes longer"
            told = [*self.over] + [f"{way.words.capitalize()} {more}, however its curve goes on." for way in short]
        return " ".join([chosen, *told])


def to_accuracy(
    pilots: Pilots, plans: Sequence[Plan], accuracy: float, by: By = "time", limits: ObjectiveSpec = _NONE
) -> Reached:
    """The way of every plan to an accuracy, and the best of them.

    Epochs that are predicted are of this plan's workers, and the curve is of one worker's steps. Exact plans of full
    batches take the same steps on any workers. Workers of mini-batches each train a batch a step, so a plan of several
    has no curve here.

    Args:
        limits: an objective, whose deadline and budget are kept.

    Raises `UserError` where a plan has no curve, is not exact, or money is asked for and no plan has a price.
    """
    ways = tuple(_way(pilots, plan, accuracy) for plan in plans)
    if by == "money" and ways and not any(way.price_per_hour for way in ways):
        raise UserError(f"{plans[0].job.name}: no host of any plan has a price; give the hosts price_per_hour")

    def value(way: Way) -> tuple[float, float]:
        """Hosts without a price cost nothing: of several ways of theirs the shortest is the best."""
        return way.dollars(way.least_s) if by == "money" else 0.0, way.least_s

    over = {id(way): words for way in ways if (words := _over(way, limits))}
    reached = [way for way in ways if way.epochs is not None and id(way) not in over]
    best = min(reached, key=value, default=None)
    is_sure = best is not None and all(value(best) <= value(way) for way in ways if id(way) not in over)
    return Reached(accuracy, by, ways, best, is_sure, tuple(over.values()))


def _over(way: Way, limits: ObjectiveSpec) -> str:
    """Which limit a way that comes to the accuracy goes over, in words; empty where it keeps them."""
    if way.seconds is None:
        return ""
    if limits.deadline_s and way.seconds > limits.deadline_s:
        return (
            f"{way.words.capitalize()} takes {way.seconds:,.4g} s, more than the deadline of {limits.deadline_s:g} s."
        )
    if limits.budget and way.dollars(way.seconds) > limits.budget:
        return (
            f"{way.words.capitalize()} costs {way.dollars(way.seconds):,.4g} dollars, more than the budget of "
            f"{limits.budget:g}."
        )
    return ""


def _way(pilots: Pilots, plan: Plan, accuracy: float) -> Way:
    family, price = family_of(plan.job), plan.placement.price_per_hour
    curve = pilots.of(plan.job, plan.graph.fingerprint)
    if curve is None:
        of = label(family, told_of(plan.job))
        raise UserError(
            f"{plan.job.name}: the pilots have no curve of this {of} plan's graph, model and training; run gnnplan "
            f"pilot on its job"
        )
    if plan.job.mini_batch and plan.num_workers > 1:
        raise UserError(
            f"{plan.job.name}: {plan.num_workers} workers train as many batches a step, and the pilot trained one; pin "
            f"num_workers = 1"
        )
    piloted = str(fidelity_of(plan.job))
    if plan.job.most.kind != "exact" and of_training(plan.job.fidelity) != piloted:
        raise UserError(f"{plan.job.name}: its pilot is {piloted}, and fidelity is {plan.job.fidelity!r}; plan it so")
    return Way(curve, curve.epochs_to(accuracy), plan.prediction.each_of_many_s, price)
