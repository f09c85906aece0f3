"""Rows that a GPU takes of its host's memory and puts there.

Whoever reads or writes there waits for the device first, so no copy is under way when the next one looks at its rows.
The host gathers and adds; memory for rows on their way is page-locked, as that where they lie.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.table import Execution


def taken(c: Context, op: Operator) -> Execution:
    """Rows on the device: consecutive ones are copied at once, others gathered first."""
    index = op.attributes["index"]
    if c.cycle.indexes[index].is_view:
        start, stop = c.view(index)
        return lambda x: x[start:stop].to(c.device, copy=True)
    rows = c.rows_on_host(index)

    def run(x: Tensor) -> Tensor:
        return torch.index_select(x, 0, rows, out=c.rows_on_their_way(len(rows), x.shape[1])).to(c.device, copy=True)

    return run


def put(c: Context, op: Operator) -> Execution:
    """The host's rows with those of the device in their places; without a base all of them come yet."""
    index, last = op.attributes["index"], len(op.reads) - 1

    def run(x: Tensor, *base: Tensor) -> Tensor:
        out = writable(op, last, base[0]) if base else c.empty(op.writes[0], x.shape[1])
        if c.cycle.indexes[index].is_view:
            start, stop = c.view(index)
            out[start:stop].copy_(x)
            return out
        return out.index_copy_(0, c.rows_on_host(index), _on_host(c, x))

    return run


def added(c: Context, op: Operator) -> Execution:
    """The host's rows, or zeros, with those of the device added in their places."""
    index, last = op.attributes["index"], len(op.reads) - 1

    def run(x: Tensor, *base: Tensor) -> Tensor:
        out = writable(op, last, base[0]) if base else c.empty(op.writes[0], x.shape[1]).zero_()
        if c.cycle.indexes[index].is_view:
            start, stop = c.view(index)
            out[start:stop] += _on_host(c, x)
            return out
        return out.index_add_(0, c.rows_on_host(index), _on_host(c, x))

    return run


def _on_host(c: Context, x: Tensor) -> Tensor:
    return c.rows_on_their_way(*x.shape).copy_(x)
