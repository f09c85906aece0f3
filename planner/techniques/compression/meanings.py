"""What rows in fewer bytes mean, in plain torch: as 16-bit floats, or as 8-bit integers with a scale a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context

_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@meaning("compress")
def _compress(c: Context, op: Operator, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    whole = x + error
    packed = _packed(whole.float(), op.attributes["format"])
    return packed, whole - _unpacked(packed, x.shape[1], op.attributes["format"]).to(x.dtype)


@meaning("decompress")
def _decompress(c: Context, op: Operator, packed: Tensor) -> Tensor:
    return _unpacked(packed, op.attributes["width"], op.attributes["format"]).to(c.dtype)


def _packed(x: Tensor, form: str) -> Tensor:
    """int32 [n, words] of float32 [n, width]."""
    if form in _HALVES:
        limit = torch.finfo(_HALVES[form]).max
        parts = x.clamp(-limit, limit).to(_HALVES[form]).contiguous().view(torch.uint8)
    else:
        scale = x.abs().amax(1, keepdim=True) / 127
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        parts = torch.cat([scale.view(torch.uint8), (x / scale).round().to(torch.int8).view(torch.uint8)], 1)
    return functional.pad(parts, (0, -parts.shape[1] % 4)).contiguous().view(torch.int32)


def _unpacked(packed: Tensor, width: int, form: str) -> Tensor:
    """float32 [n, width]."""
    if form in _HALVES:
        return packed.view(_HALVES[form])[:, :width].float()
    scale = packed[:, :1].contiguous().view(torch.float32)
    return packed.view(torch.int8)[:, 4 : 4 + width].float() * scale
