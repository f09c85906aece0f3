"""What ends a training program: gradients and loss summed over workers, and a step along them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.training_spec import TrainingSpec

LOSS, TOTAL_LOSS = "loss", "total_loss"


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch, by what its step needs."""

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    num_epochs: int = 1

    @classmethod
    def of(cls, training: TrainingSpec) -> Optimizer:
        """That of a job."""
        rates = training.learning_rate, training.weight_decay, training.momentum
        return cls(training.optimizer, *rates, training.schedule, training.epochs)

    @property
    def moments(self) -> tuple[str, ...]:
        """Cells beside every parameter."""
        if self.kind == "sgd":
            return ("momentum_buffer",) if self.momentum else ()
        return ("exp_avg", "exp_avg_sq")

    @property
    def extras(self) -> dict[str, Any]:
        """Attributes of a step that most steps have not."""
        moved = {"momentum": self.momentum} if self.momentum else {}
        is_scheduled = self.schedule != "constant"
        return moved | ({"schedule": self.schedule, "num_epochs": self.num_epochs} if is_scheduled else {})


def rate_in(attributes: Mapping[str, Any], epoch: int) -> float:
    """The learning rate of a step in an epoch, counted from 0."""
    rate, schedule = attributes["learning_rate"], attributes.get("schedule", "constant")
    if schedule == "constant":
        return rate
    passed = min(1.0, epoch / attributes["num_epochs"])
    return rate * ((1 - passed) if schedule == "linear" else (1 + math.cos(math.pi * passed)) / 2)


def add_step(emitter: Emitter, parameters: tuple[str, ...], grads: tuple[str, ...], optimizer: Optimizer) -> set[str]:
    """Sums the gradients of parameters, and the loss behind them, in one all-reduce; then steps.

    Returns the names of what a program hands out.
    """
    summed = tuple(f"grad:{name}" for name in parameters)
    if emitter.cycle.num_workers == 1:
        summed, total = grads, LOSS
    else:
        flat = emitter.emit("flatten", *grads, LOSS, key="reduce/flatten")
        flat = emitter.emit("all_reduce", flat, key="reduce")
        writes = (*summed, TOTAL_LOSS)
        emitter.emit_all("unflatten", flat, key="reduce/unflatten", writes=writes, like=(*parameters, LOSS))
        total = TOTAL_LOSS
    cells = _cells(emitter, parameters, optimizer)
    emitter.emit_all(
        "step",
        *parameters,
        *summed,
        *cells,
        key="optimizer",
        writes=(*parameters, *cells),
        parameters=parameters,
        cells=cells,
        optimizer=optimizer.kind,
        learning_rate=optimizer.learning_rate,
        weight_decay=optimizer.weight_decay,
        **optimizer.extras,
    )
    return {total}


def _cells(emitter: Emitter, parameters: tuple[str, ...], optimizer: Optimizer) -> tuple[str, ...]:
    if not optimizer.moments:
        return ()
    # torch's optimizers count the steps of every parameter by itself.
    names = [emitter.add_value(Value("num_steps", parameter_space(len(parameters)), 1, role="cell"))]
    for moment in optimizer.moments:
        for parameter in parameters:
            like = emitter.cycle.values[parameter]
            names.append(emitter.add_value(replace(like, name=f"{moment}:{parameter}", role="cell")))
    return tuple(names)
