"""What the validation metric decides while a training runs: when the learning rate falls, and when to stop.

All workers have the same metric, for it is of all rows together, so each of them decides the same by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from gnnplan.planner.metrics import Metric
from gnnplan.planner.optimizers import SCHEDULES
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.checkpoint.parts import Likes
from gnnplan.runtime.checkpoint.state import CONTROL, METRIC, State

_LEAST_CHANGE = 1e-8  # of a learning rate, as torch has it
_BEST = f"{CONTROL}/best:"


@dataclass
class Plateau:
    """torch's `ReduceLROnPlateau`, whose threshold is relative, as a factor of the learning rate.

    Args:
        metric: what is measured.
        rate: the learning rate that a job has.
        given: its arguments, by torch's names.
    """

    metric: Metric
    rate: float
    given: Mapping[str, object]
    best: float = np.nan
    num_bad: int = 0
    cooling: int = 0
    factor: float = 1.0

    def after(self, value: float) -> None:
        """A validation has come to a value."""
        if self._is_better(value):
            self.best, self.num_bad = value, 0
        else:
            self.num_bad += 1
        if self.cooling > 0:
            self.cooling -= 1
            self.num_bad = 0
        if self.num_bad > self._number("patience"):
            self._reduce()
            self.cooling, self.num_bad = int(self._number("cooldown")), 0

    def _reduce(self) -> None:
        rate = self.factor * self.rate
        less = max(rate * self._number("factor"), self._number("min_lr"))
        if rate - less > _LEAST_CHANGE:
            self.factor = less / self.rate

    def _is_better(self, value: float) -> bool:
        if np.isnan(self.best):
            return not np.isnan(value)
        threshold = self._number("threshold")
        margin = 1 - threshold if self.metric.of_targets else 1 + threshold
        return self.metric.is_better(value, self.best * margin)

    def _number(self, name: str) -> float:
        return float(self.given.get(name, SCHEDULES["plateau"][name]))  # type: ignore[arg-type]


@dataclass
class Supervision:
    """Looks at the validation metric of a training, and keeps the best weights where it may stop early.

    Args:
        weights: all that a model file has, as the training changes it.
        best: the best metric so far; `best_epoch` is the epoch whose weights had it (-1: none).
        num_bad: validations since.
    """

    training: TrainingSpec
    metric: Metric
    weights: Mapping[str, Tensor]
    best: float = np.nan
    best_epoch: int = -1
    num_bad: int = 0
    _kept: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        training = self.training
        self.plateau = Plateau(self.metric, training.learning_rate, training.schedule_arguments)
        if training.early_stopping:
            self._kept = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def is_due(self, epoch: int) -> bool:
        """Whether the metric is to be known after an epoch."""
        return self.training.is_supervised and (epoch + 1) % self.training.validate_every == 0

    def after(self, epoch: int, value: float) -> None:
        """The validation metric after an epoch is known."""
        if self.training.schedule == "plateau" and epoch >= self.training.warmup_epochs:
            self.plateau.after(value)
        rule = self.training.early_stopping
        if rule is None:
            return
        if np.isnan(self.best) or self.metric.is_better(value, self._beaten(rule.min_delta)):
            self.best, self.best_epoch, self.num_bad = value, epoch, 0
            for name, weight in self._kept.items():
                weight.copy_(self.weights[name].detach())
        else:
            self.num_bad += 1

    def _beaten(self, min_delta: float) -> float:
        return self.best - min_delta if self.metric.of_targets else self.best + min_delta

    @property
    def _key(self) -> str:
        """Of what is held: values of another metric are no better and no worse."""
        return f"{METRIC}:{self.metric.words}"

    @property
    def rate_factor(self) -> float:
        """Of the learning rate of the next epoch, beside what its schedule says."""
        return self.plateau.factor

    @property
    def is_over(self) -> bool:
        """Whether the metric has not become better for as many validations as the job waits."""
        rule = self.training.early_stopping
        return rule is not None and self.num_bad >= rule.patience

    def put_best_back(self) -> str:
        """The best weights are the model's again; says so in words, which are empty where nothing was kept."""
        if self.best_epoch < 0:
            return ""
        for name, weight in self._kept.items():
            self.weights[name].detach().copy_(weight)
        return f"the model is that of epoch {self.best_epoch}, with {self.metric.words} {self.metric.shown(self.best)}"

    def like(self) -> Likes:
        """As `State`."""
        numbers: Likes = {self._key: ((7,), np.dtype(np.float64))}
        return {**numbers, **{_BEST + n: (tuple(w.shape), np.dtype(np.float32)) for n, w in self._kept.items()}}

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """As `State`."""
        of = self.plateau
        numbers = [self.best, self.best_epoch, self.num_bad, of.best, of.num_bad, of.cooling, of.factor]
        return {self._key: np.array(numbers, np.float64), **{_BEST + name: each for name, each in self._kept.items()}}

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `State`."""
        of, numbers = self.plateau, arrays[self._key].tolist()
        self.best, of.best, of.factor = numbers[0], numbers[3], numbers[6]
        self.best_epoch, self.num_bad, of.num_bad, of.cooling = (int(numbers[k]) for k in (1, 2, 4, 5))
        for name, weight in self._kept.items():
            weight.copy_(weight.new_tensor(arrays[_BEST + name]))


@dataclass
class SupervisedState:
    """The state of a training, and what its validations have come to."""

    training: State
    supervision: Supervision

    def like(self) -> Likes:
        """As `State`."""
        return {**self.training.like(), **self.supervision.like()}

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """As `State`."""
        return {**self.training.held(), **self.supervision.held()}

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `State`."""
        own = self.supervision.like()
        self.training.put({name: array for name, array in arrays.items() if name not in own})
        self.supervision.put({name: arrays[name] for name in own})
