"""What a module keeps from call to call, which a program of its calls would not: noticed, put back, and refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from gnnplan.planner.models.lines import line_of_class
from gnnplan.profiles.errors import UserError

_PLAIN = bool | int | float | str


@contextmanager
def keeping_state(module: torch.nn.Module) -> Iterator[None]:
    """Raises `UserError` where what is done meanwhile changes a number or a buffer of the module; puts them back."""
    attributes = {path: _plain_attributes(part) for path, part in module.named_modules()}
    buffers = {name: (buffer, buffer.detach().clone()) for name, buffer in module.named_buffers()}
    generators = _generators(module)
    yield
    changed = [name for name, (buffer, before) in buffers.items() if not _are_equal(buffer, before)]
    for name in changed:
        with torch.no_grad():
            buffers[name][0].copy_(buffers[name][1])
    for path, before in attributes.items():
        part = module.get_submodule(path)
        now = _plain_attributes(part)
        for key in before.keys() & now.keys():
            if before[key] != now[key]:
                setattr(part, key, before[key])
                changed.append(f"{path}.{key}" if path else key)
    if changed:
        raise UserError(
            f"{line_of_class(module)}: forward of {type(module).__name__} changes its {changed[0]}, which would keep "
            f"one value for all epochs"
        )
    if _generators(module) != generators:
        raise UserError(
            f"{line_of_class(module)}: forward of {type(module).__name__} draws from a generator of its own, which "
            f"would be done once for all epochs; what is drawn anew is dropout's"
        )


def check_hooks(module: torch.nn.Module) -> None:
    """`UserError` where somebody's own code runs beside a layer that has equations here."""
    for path, part in module.named_modules():
        if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks:
            where = path or type(module).__name__
            raise UserError(f"{line_of_class(module)}: {where} has hooks, which are not known; remove them")


def _plain_attributes(part: torch.nn.Module) -> dict[str, Any]:
    return {key: each for key, each in vars(part).items() if isinstance(each, _PLAIN)}


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def _generators(module: torch.nn.Module) -> list[str]:
    """The states of generators that parts have as attributes."""
    found = []
    for part in module.modules():
        for each in vars(part).values():
            if isinstance(each, np.random.Generator):
                found.append(str(each.bit_generator.state))
            elif isinstance(each, torch.Generator):
                found.append(each.get_state().numpy().tobytes().hex())
    return found
