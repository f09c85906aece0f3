"""A module's parameters and running statistics as a program has them, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping

import torch
from torch import Tensor, nn

from gnnplan.planner.models.vocabulary import RUNNING
from gnnplan.planner.program.cycle import Cycle

_MEAN, _VARIANCE, _COUNT = ".running_mean", ".running_var", ".num_batches_tracked"
_CHANGING = "running_statistics"  # the kind of operator that changes them


def matrices_of(module: nn.Module, cycle: Cycle) -> dict[str, Tensor]:
    """Every parameter of a cycle as a matrix in the module's memory, and copies of running statistics."""
    return program_state(module.state_dict(), cycle)


def program_state(state: Mapping[str, Tensor], cycle: Cycle) -> dict[str, Tensor]:
    """The same, of a `state_dict`: a vector is one row; running statistics are [2, C], mean and variance."""
    found = {name: _as_matrix(state[name].detach()) for name in cycle.parameters}
    for cell, path in _running(cycle).items():
        found[cell] = torch.stack([state[path + _MEAN], state[path + _VARIANCE]])
    return found


def store(module: nn.Module, cycle: Cycle, trained: Mapping[str, Tensor], epochs: int) -> None:
    """Puts what was trained into a module."""
    state = module.state_dict()
    with torch.no_grad():
        for name in cycle.parameters:
            state[name].copy_(trained[name].reshape(state[name].shape))
    put_running(state, cycle, trained, epochs)


def put_running(state: MutableMapping[str, Tensor], cycle: Cycle, trained: Mapping[str, Tensor], epochs: int) -> None:
    """Puts running statistics into a `state_dict`, in place, as after so many epochs more."""
    changes = Counter(name for op in cycle.programs[cycle.order[0]] if op.kind == _CHANGING for name in op.writes)
    for cell, path in _running(cycle).items():
        state[path + _MEAN].copy_(trained[cell][0])
        state[path + _VARIANCE].copy_(trained[cell][1])
        state[path + _COUNT].add_(epochs * changes[cell])  # a module that is called twice counts twice


def _running(cycle: Cycle) -> dict[str, str]:
    """By cell the path of the module whose running statistics it has."""
    cells = (name for name, value in cycle.values.items() if value.role == "cell" and name.endswith(RUNNING))
    return {name: name.removesuffix(RUNNING) for name in cells}


def _as_matrix(parameter: Tensor) -> Tensor:
    return parameter.view(len(parameter) if parameter.dim() > 1 else 1, -1)
