"""What it means to turn rows into columns and back. Sparse rows are cut where they are sent, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnplan.planner.program.kinds.columns import members_of, slices_of
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import COLLECTIVES, meaning

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("pack_columns")
def _pack(c: Context, op: Operator, x: Tensor) -> Tensor:
    if x.layout == torch.sparse_csr:
        return x
    by_head = x.view(len(x), op.attributes["heads"], -1) if x.numel() else x[:, None]
    return torch.cat([by_head[:, :, a:b].reshape(-1) for a, b in _channels(op)]).view(x.shape)


@meaning("unpack_columns")
def _unpack(c: Context, op: Operator, packed: Tensor) -> Tensor:
    if packed.layout == torch.sparse_csr:
        return packed
    heads, num_rows = op.attributes["heads"], len(packed)
    parts = packed.reshape(-1).split([num_rows * heads * (b - a) for a, b in _channels(op)])
    slices = [part.view(num_rows, heads, b - a) for part, (a, b) in zip(parts, _channels(op), strict=True)]
    return torch.cat(slices, 2).view(packed.shape)


def _channels(op: Operator) -> list[tuple[int, int]]:
    """Of one head, the channels of every slice, which are the same in every group."""
    heads = op.attributes["heads"]
    return [(start // heads, stop // heads) for start, stop in slices_of(op, 0)]


@meaning("transpose", COLLECTIVES)
def _transpose(c: Context, op: Operator, sent: list[Tensor]) -> list[Tensor]:
    """Each group by itself."""
    rows, members = c.cycle.routes[op.attributes["route"]].counts.diagonal().tolist(), members_of(op)
    groups = [range(first, first + members) for first in range(0, len(sent), members)]
    return [made for group in groups for made in _turned(op, [sent[p] for p in group], [rows[p] for p in group])]


def _turned(op: Operator, sent: list[Tensor], rows: list[int]) -> list[Tensor]:
    widths, back = [stop - start for start, stop in slices_of(op, 0)], op.attributes["back"]
    members = range(len(sent))
    if sent[0].layout == torch.sparse_csr:
        whole = torch.cat([x.to_dense() for x in sent], 1 if back else 0)
        return [part.clone().to_sparse_csr() for part in (whole.split(rows) if back else whole.split(widths, 1))]
    if back:
        by_sender = [x.split(rows) for x in sent]
        return [torch.cat([parts[p].reshape(-1) for parts in by_sender]).view(rows[p], sum(widths)) for p in members]
    flat = [x.reshape(-1).split([len(x) * width for width in widths]) for x in sent]
    return [torch.cat([parts[q] for parts in flat]).view(sum(rows), widths[q]) for q in members]
