"""Weights and optimizer state as one vector, to bring a worker that was left behind up to date.

Every round makes one state out of the one before, by its members. A member that was missing from the round before
takes over the state from the lowest-ranked member that was not: so all members of a round end it with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def packed_state(optimizer: torch.optim.Optimizer) -> Tensor:
    """float32 [S] in host memory: all parameters, then the optimizer's tensors of each, in the order of their names."""
    return torch.cat([tensor.detach().reshape(-1).float().cpu() for tensor in _tensors(optimizer)])


@torch.no_grad()
def unpack_state_(optimizer: torch.optim.Optimizer, packed: Tensor) -> None:
    """Takes over what `packed_state` of an equal optimizer gave; `ValueError` where it is of another size."""
    tensors = list(_tensors(optimizer))
    sizes = [tensor.numel() for tensor in tensors]
    if sum(sizes) != packed.numel():
        raise ValueError(f"a state of {packed.numel()} numbers came, this worker's has {sum(sizes)}")
    for tensor, part in zip(tensors, packed.split(sizes)):
        tensor.copy_(part.view_as(tensor))


def _tensors(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    yield from parameters
    for parameter in parameters:
        for _, value in sorted(optimizer.state[parameter].items()):
            if isinstance(value, Tensor):
                yield value
