"""The model as workers have it: its parameters and buffers by name. Its code stays where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from gnnplan.planner.models.cloned import cloned
from gnnplan.planner.models.module_state import program_state, put_running
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.errors import UserError


class Net:
    """What a program trains of a model.

    Args:
        weights: a `state_dict`; what is on the device already is trained where it lies.
        matrices: parameters as a program has them, and cells that start as the model's running statistics.
        epochs: trained since.

    Raises `UserError` where they are another model's.
    """

    def __init__(self, weights: Mapping[str, Tensor], cycle: Cycle, device: torch.device) -> None:
        if any(name not in weights or tuple(weights[name].shape) != shape for name, shape in cycle.parameters.items()):
            raise UserError("the first weights are not the weights of the plan's model; run the plan again")
        self._cycle = cycle
        moved: dict[tuple, Tensor] = {}  # a parameter that a module has twice stays one
        self.state = {
            name: moved.setdefault((each.data_ptr(), each.shape), each.to(device)) for name, each in weights.items()
        }
        self.matrices = program_state(self.state, cycle)
        self.epochs = 0

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """What is trained, by the model's own keys."""
        return ((name, self.state[name]) for name in self._cycle.parameters)

    def parameters(self) -> Iterator[Tensor]:
        """The same without names."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """By the model's own keys, as after its training."""
        state = cloned(self.state)
        put_running(state, self._cycle, self.matrices, self.epochs)
        return state


def read_weights(path: Path) -> dict[str, Tensor]:
    """A `state_dict` that the planner wrote; `UserError` where it cannot be read."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its readers do
        raise UserError(f"{path}: the first weights cannot be read; run the plan again") from error
