"""Copies of a `state_dict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def cloned(state: Mapping[str, Tensor], device: str = "") -> dict[str, Tensor]:
    """Copies of a `state_dict`, on another device where one is named; what a module has under two names stays one."""
    copies: dict[tuple, Tensor] = {}
    found: dict[str, Tensor] = {}
    for name, each in state.items():
        place = each.data_ptr(), each.shape, each.stride()
        found[name] = copies.setdefault(place, each.detach().to(device or each.device, copy=True))
    return found
