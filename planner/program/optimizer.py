"""What ends a training program: gradients and loss summed over workers, and a step along them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gnnplan.planner.optimizers import Items, OptimizerName, ScheduleName, items, moments_of, rate_factor
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.training_spec import TrainingSpec

LOSS, TOTAL_LOSS = "loss", "total_loss"


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch, by what its step needs.

    Args:
        clip_norm, clip_value: of the gradient over all workers and parameters, before weight decay (0: not clipped).
        arguments, schedule_arguments: as `gnnplan.planner.optimizers` has them.
    """

    kind: OptimizerName = "adam"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.0
    schedule: ScheduleName = "constant"
    num_epochs: int = 1
    arguments: Items = ()
    schedule_arguments: Items = ()
    warmup_epochs: int = 0
    clip_norm: float = 0.0
    clip_value: float = 0.0

    @classmethod
    def of(cls, training: TrainingSpec) -> Optimizer:
        """That of a job."""
        return cls(
            training.optimizer,
            training.learning_rate,
            training.weight_decay,
            training.momentum,
            training.schedule,
            training.epochs,
            items(training.optimizer_arguments),
            items(training.schedule_arguments),
            training.warmup_epochs,
            training.clip_norm,
            training.clip_value,
        )

    @property
    def moments(self) -> tuple[str, ...]:
        """Cells beside every parameter."""
        return moments_of(self.kind, {"momentum": self.momentum, **dict(self.arguments)})

    @property
    def extras(self) -> dict[str, Any]:
        """Attributes of a step that most steps have not."""
        names = ("momentum", "arguments", "schedule_arguments", "warmup_epochs", "clip_norm", "clip_value")
        given = {name: getattr(self, name) for name in names if getattr(self, name)}
        if self.schedule != "constant":
            given["schedule"] = self.schedule
        if self.schedule != "constant" or self.warmup_epochs:
            given["num_epochs"] = self.num_epochs
        return given


def rate_in(attributes: Mapping[str, Any], epoch: int) -> float:
    """The learning rate of a step in an epoch, counted from 0; of a plateau before it has changed."""
    rate, schedule = attributes["learning_rate"], attributes.get("schedule", "constant")
    if "num_epochs" not in attributes:
        return rate
    given = dict(attributes.get("schedule_arguments", ()))
    return rate * rate_factor(
        schedule, given, epoch, attributes["num_epochs"], attributes.get("warmup_epochs", 0), rate
    )


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


def is_torchs(attributes: Mapping[str, Any]) -> bool:
    """Whether a step is taken by torch's class: the three of all jobs with their defaults have kernels of their own."""
    return attributes["optimizer"] not in ("adam", "adamw", "sgd") or bool(attributes.get("arguments"))
