"""torch's own optimizers on tensors that somebody else keeps, and clipping.

Adam and SGD are called as functions: the classes import torch's compiler, which is seconds and 100 MB a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
    "radam": torch.optim.RAdam,
}


def adam_step(
    parameters: list[Tensor],
    grads: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    *,
    rate: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> None:
    """One fused step of Adam, in place; of AdamW where the decay is decoupled.

    Args:
        steps: a scalar for every parameter, how many it has taken.
    """
    adam(
        parameters,
        grads,
        means,
        squares,
        [],
        steps,
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=rate,
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled,
        eps=1e-8,
        maximize=False,
    )


def torch_step(
    name: str,
    arguments: Mapping[str, Any],
    parameters: Sequence[Tensor],
    grads: Sequence[Tensor],
    steps: Tensor | None,
    moments: Mapping[str, Sequence[Tensor]],
) -> None:
    """One step of an optimizer of torch, in place.

    Args:
        arguments: of torch's class, the learning rate among them.
        parameters: leaves that need no gradient; what autograd left in them is replaced.
        steps: [P, 1], how many each has taken (None: the optimizer does not count).
        moments: by torch's names, one of every parameter; the first step finds zeros.
    """
    optimizer = OPTIMIZERS[name](list(parameters), foreach=False, **arguments)
    for k, (parameter, grad) in enumerate(zip(parameters, grads, strict=True)):
        parameter.grad = grad
        state = {name: each[k] for name, each in moments.items()}
        if state:
            optimizer.state[parameter] = state if steps is None else {"step": steps[k, 0], **state}
    optimizer.step()
    for parameter in parameters:
        parameter.grad = None


def clipped(grads: Sequence[Tensor], norm: float, value: float) -> list[Tensor]:
    """Copies of a gradient's parts: no element is beyond `value`, and then all together are not longer than `norm`.

    As torch's `clip_grad_value_` and `clip_grad_norm_`; 0: not clipped.
    """
    found = [grad.clamp(-value, value) for grad in grads] if value else list(grads)
    if norm:
        length = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in found]))
        factor = (norm / (length + 1e-6)).clamp(max=1.0)
        found = [grad * factor for grad in found]
    return found
