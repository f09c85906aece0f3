"""What ends a training program: gradients and loss summed over workers, and a step along them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Value, parameter_space

LOSS, TOTAL_LOSS = "loss", "total_loss"


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch, by what its step needs."""

    kind: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    weight_decay: float = 0.0

    @property
    def moments(self) -> tuple[str, ...]:
        """Cells beside every parameter."""
        return ("exp_avg", "exp_avg_sq") if self.kind == "adam" else ()


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
