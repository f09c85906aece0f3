"""The optimizer's step."""

from __future__ import annotations

from torch import Tensor
from torch.optim.sgd import sgd

from gnnplan.planner.program.optimizer import is_torchs, rate_in
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.optimizer_step import arguments_of, by_moment
from gnnplan.profiles.kernels.optimizer_step import adam_step, clipped, torch_step
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


@executes("step")
def _step(c: Context, op: Operator) -> Execution:
    attributes, count = op.attributes, len(op.attributes["parameters"])
    decay, momentum = attributes["weight_decay"], attributes.get("momentum", 0.0)

    def run_sgd(*reads: Tensor) -> tuple[Tensor, ...]:
        parameters, grads, cells = list(reads[:count]), list(reads[count : 2 * count]), reads[2 * count :]
        sgd(
            parameters,
            grads,
            list(cells[1:]) if cells else [None] * count,  # buffers begin at zero, so the first step is the gradient's
            fused=True,
            weight_decay=decay,
            momentum=momentum,
            lr=rate_in(attributes, c.epoch) * c.rate_factor,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        return (*parameters, *cells)

    def run_adam(*reads: Tensor) -> tuple[Tensor, ...]:
        parameters, grads, steps = list(reads[:count]), list(reads[count : 2 * count]), reads[2 * count]
        means, squares = list(reads[2 * count + 1 : 3 * count + 1]), list(reads[3 * count + 1 :])
        adam_step(
            parameters,
            grads,
            means,
            squares,
            [steps[k, 0] for k in range(count)],
            rate=rate_in(attributes, c.epoch) * c.rate_factor,
            weight_decay=decay,
            decoupled=attributes["optimizer"] == "adamw",
        )
        return (*parameters, steps, *means, *squares)

    def run_torchs(*reads: Tensor) -> tuple[Tensor, ...]:
        parameters, grads, cells = reads[:count], reads[count : 2 * count], reads[2 * count :]
        steps, moments = by_moment(op, cells)
        rate = rate_in(attributes, c.epoch) * c.rate_factor
        torch_step(attributes["optimizer"], arguments_of(attributes, rate), parameters, grads, steps, moments)
        return (*parameters, *cells)

    run = run_torchs if is_torchs(attributes) else run_sgd if attributes["optimizer"] == "sgd" else run_adam
    norm, value = attributes.get("clip_norm", 0.0), attributes.get("clip_value", 0.0)

    def run_clipped(*reads: Tensor) -> tuple[Tensor, ...]:
        return run(*reads[:count], *clipped(reads[count : 2 * count], norm, value), *reads[2 * count :])

    return run_clipped if norm or value else run
