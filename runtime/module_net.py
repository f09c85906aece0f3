"""A user's module as workers have it: its parameters and buffers by name. Its code stays where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from gnnplan.planner.models.module_state import program_state, put_running
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.errors import UserError


class ModuleNet:
    """What a program trains of a module.

    Args:
        state: a `state_dict`; parameters are trained where they lie.
        matrices: parameters as a program has them, and cells that start as the module's running statistics.
        epochs: trained since.
    """

    def __init__(self, state: dict[str, Tensor], cycle: Cycle, device: torch.device) -> None:
        self._cycle = cycle
        moved: dict[tuple, Tensor] = {}  # a parameter that a module has twice stays one
        self.state = {
            name: moved.setdefault((each.data_ptr(), each.shape), each.to(device)) for name, each in state.items()
        }
        self.matrices = program_state(self.state, cycle)
        self.epochs = 0

    @classmethod
    def load(cls, path: Path, cycle: Cycle, device: torch.device) -> ModuleNet:
        """Reads what the planner wrote; `UserError` where it is missing or another module's."""
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"{path}: the module's first weights cannot be read; run the plan again") from error
        found = {name: tuple(each.shape) for name, each in state.items()}
        if any(found.get(name) != shape for name, shape in cycle.parameters.items()):
            raise UserError(f"{path}: not the weights of the plan's module; run the plan again")
        return cls(state, cycle, device)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """What is trained, by the module's own keys."""
        return ((name, self.state[name]) for name in self._cycle.parameters)

    def parameters(self) -> Iterator[Tensor]:
        """The same without names."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """By the module's own keys, as after its training."""
        state = {name: each.detach().clone() for name, each in self.state.items()}
        put_running(state, self._cycle, self.matrices, self.epochs)
        return state
