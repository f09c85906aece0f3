"""What a step along the gradients means: every worker takes the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gnnplan.planner.program.optimizer import is_torchs, rate_in
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning
from gnnplan.profiles.kernels.optimizer_step import clipped, torch_step

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("step")
def _step(c: Context, op: Operator, *reads: Tensor) -> tuple[Tensor, ...]:
    attributes, count = op.attributes, len(op.attributes["parameters"])
    parameters, grads, cells = reads[:count], reads[count : 2 * count], reads[2 * count :]
    rate, decay = rate_in(attributes, c.epoch) * c.rate_factor, attributes["weight_decay"]
    grads = tuple(clipped(grads, attributes.get("clip_norm", 0.0), attributes.get("clip_value", 0.0)))
    if is_torchs(attributes):
        steps, moments = by_moment(op, cells)
        torch_step(attributes["optimizer"], arguments_of(attributes, rate), parameters, grads, steps, moments)
        return (*parameters, *cells)
    if attributes["optimizer"] == "adamw":
        for weight in parameters:
            weight.mul_(1 - rate * decay)
    else:
        grads = tuple(grad + decay * weight for grad, weight in zip(grads, parameters, strict=True))
    if attributes["optimizer"] == "sgd":
        _sgd(parameters, grads, cells, rate, attributes.get("momentum", 0.0))
    else:
        _adam(parameters, grads, cells, rate)
    return (*parameters, *cells)


def _sgd(
    parameters: Sequence[Tensor], grads: Sequence[Tensor], cells: Sequence[Tensor], rate: float, momentum: float
) -> None:
    moved = cells[1:] if cells else grads
    for weight, grad, buffer in zip(parameters, grads, moved, strict=True):
        if cells:
            buffer.mul_(momentum).add_(grad)
        weight.sub_(rate * buffer)


def _adam(parameters: Sequence[Tensor], grads: Sequence[Tensor], cells: Sequence[Tensor], rate: float) -> None:
    count = len(parameters)
    steps, first, second = cells[0], cells[1 : count + 1], cells[count + 1 :]
    steps.add_(1)
    for k, (weight, grad, mean, square) in enumerate(zip(parameters, grads, first, second, strict=True)):
        t = float(steps[k, 0])
        mean.lerp_(grad, 0.1)
        square.mul_(0.999).addcmul_(grad, grad, value=0.001)
        root = (square / (1 - 0.999**t)).sqrt().add_(1e-8)
        weight.sub_(rate / (1 - 0.9**t) * mean / root)


def arguments_of(attributes: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """What torch's class is made with."""
    momentum = {"momentum": attributes["momentum"]} if attributes.get("momentum") else {}
    given = dict(attributes.get("arguments", ()))
    return {"lr": rate, "weight_decay": attributes["weight_decay"], **momentum, **given}


def by_moment(op: Operator, cells: Sequence[Tensor]) -> tuple[Tensor | None, dict[str, Sequence[Tensor]]]:
    """The steps that parameters have taken, and every moment's cells, by the names that the operator has them under."""
    if not cells:
        return None, {}
    count, names = len(op.attributes["parameters"]), op.attributes["cells"]
    firsts = range(1, len(names), count)
    return cells[0], {names[first].partition(":")[0]: cells[first : first + count] for first in firsts}
