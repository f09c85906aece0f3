"""Rows in fewer bytes: 16-bit floats, or 8-bit integers with a scale a row.

Compressed rows are int32 words, so that they travel as any other matrix does. A row of `int8` begins with its scale, a
float32. Where a row's bytes fill no whole word, zeros follow.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool

Format = Literal["float16", "bfloat16", "int8"]
FORMATS: tuple[Format, ...] = ("float16", "bfloat16", "int8")
_SIXTEEN = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_GREATEST = 127  # of int8, either sign
_GREATEST_HALF = 65504.0
_ELEMENTS_AT_ONCE = 2**14  # float32 beside each other in a core's cache; no block of the pool
_ELEMENTS_AT_ONCE_ON_CUDA = 2**22


def num_words(width: int, form: Format) -> int:
    """int32 words of a row of `width` numbers."""
    return 1 + -(-width // 4) if form == "int8" else -(-width // 2)


def rows_at_once(width: int, *, on_cuda: bool) -> int:
    """Rows that are compressed in one piece, so that what is made beside them stays small."""
    return max(1, (_ELEMENTS_AT_ONCE_ON_CUDA if on_cuda else _ELEMENTS_AT_ONCE) // max(1, width))


def compress(x: Tensor, error: Tensor, form: Format) -> Tensor:
    """`x + error` [n, width] as int32 [n, num_words]; in `error` is then what the compressed rows lack.

    Error feedback: Seide et al. 2014; Karimireddy et al. 2019, algorithm 2. A row with NaN stays one. One with
    infinity does too, but as float16: there its receivers get the greatest number, and who sends it has the infinity.
    """
    rows, width = x.shape
    packed = pool.empty(x.device, rows, num_words(width, form)).view(torch.int32)
    step = rows_at_once(width, on_cuda=x.device.type == "cuda")
    pack = _pack_int8 if form == "int8" else _pack_half
    for start in range(0, rows, step):
        part = slice(start, start + step)
        pack(error[part].add_(x[part]), packed[part], form)
    return packed


def decompress(packed: Tensor, width: int, form: Format) -> Tensor:
    """Float32 [n, width] of `compress`ed rows."""
    rows, out = packed.shape[0], pool.empty(packed.device, packed.shape[0], width)
    if form == "int8":
        scale, numbers = packed.view(torch.float32)[:, :1], packed.view(torch.int8)[:, 4 : 4 + width]
        return torch.mul(numbers, scale, out=out) if rows else out
    return out.copy_(packed.view(_SIXTEEN[form])[:, :width])


def _pack_half(x: Tensor, packed: Tensor, form: Format) -> None:
    halves, width = packed.view(_SIXTEEN[form]), x.shape[1]
    halves[:, width:] = 0
    # What is too large for a half stays in the error, and travels in later epochs.
    fits = x.clamp(-_GREATEST_HALF, _GREATEST_HALF) if form == "float16" else x
    halves[:, :width].copy_(fits)
    x.sub_(halves[:, :width])


def _pack_int8(x: Tensor, packed: Tensor, form: Format) -> None:
    numbers, width = packed.view(torch.int8), x.shape[1]
    scale = x.abs().amax(1, keepdim=True).div_(_GREATEST)
    scale.masked_fill_(scale == 0, 1.0)
    nearest = (x / scale).round_().clamp_(-_GREATEST, _GREATEST)  # a scale that is no number makes none of the row
    packed.view(torch.float32)[:, :1] = scale
    numbers[:, 4 : 4 + width].copy_(nearest)
    numbers[:, 4 + width :] = 0
    x.sub_(nearest.mul_(scale))
