"""What a module keeps from call to call, which a program of its calls would not: noticed, put back, and refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gnnplan.planner.models.lines import line_of_class
from gnnplan.profiles.errors import UserError

_PLAIN = bool | int | float | str


@contextmanager
def keeping_state(module: torch.nn.Module) -> Iterator[None]:
    """Puts back what is changed meanwhile of a module's numbers, buffers and generators; `UserError` where some is."""
    parts = {path: _State(part) for path, part in module.named_modules()}
    try:
        yield
    except BaseException:
        for state in parts.values():
            state.put_back()
        raise
    changed = [f"{path}.{key}" if path else key for path, state in parts.items() for key in state.put_back()]
    if changed:
        raise UserError(
            f"{line_of_class(module)}: forward of {type(module).__name__} changes its {changed[0]}, which would keep "
            f"one value for all epochs; what is drawn anew is dropout's"
        )


@dataclass
class _State:
    """What one part of a module has, as it was."""

    part: torch.nn.Module

    def __post_init__(self) -> None:
        self._plain = {key: each for key, each in vars(self.part).items() if isinstance(each, _PLAIN)}
        buffers = {key: each for key, each in self.part._buffers.items() if each is not None and _is_dense(each)}
        self._buffers = {key: (each, each.detach().clone()) for key, each in buffers.items()}
        stands = {key: _state_of(each) for key, each in vars(self.part).items()}
        self._generators = {key: state for key, state in stands.items() if state is not None}

    def put_back(self) -> list[str]:
        """Whose values have changed."""
        changed = []
        for key, before in self._plain.items():
            if repr(vars(self.part).get(key)) != repr(before):
                setattr(self.part, key, before)
                changed.append(key)
        for key, (buffer, numbers) in self._buffers.items():
            if self.part._buffers.get(key) is not buffer or not _are_equal(buffer, numbers):
                with torch.no_grad():
                    buffer.copy_(numbers)
                self.part._buffers[key] = buffer
                changed.append(key)
        for key, state in self._generators.items():
            if repr(_state_of(generator := vars(self.part)[key])) != repr(state):
                _put_state(generator, state)
                changed.append(key)
        return changed


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_nested


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one shape and the same numbers, or no numbers in the same places."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _state_of(generator: Any) -> Any:
    """Where a generator of random numbers stands; None where it is none."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        _, keys, *others = generator.get_state(legacy=True)
        return np.asarray(keys).tolist(), *others
    if isinstance(generator, torch.Generator):
        return generator.get_state().tolist()
    return generator.getstate() if isinstance(generator, random.Random) else None


def _put_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        keys, *others = state
        generator.set_state(("MT19937", np.array(keys, np.uint32), *others))
    elif isinstance(generator, torch.Generator):
        generator.set_state(torch.tensor(state, dtype=torch.uint8))
    else:
        generator.setstate(state)
