"""Rows taken, sent and put together; sums over workers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.profiles.kernels.halves import HALF, add_rows_
from gnnplan.runtime.execution import host_rows
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import Execution, executes
from gnnplan.runtime.transfer import Transfer


@executes("take")
def _take(c: Context, op: Operator) -> Execution:
    index = op.attributes["index"]
    if c.lies_in_host(op.reads[0]):
        return host_rows.taken(c, op)
    if c.cycle.indexes[index].is_view:
        start, stop = c.view(index)
        return lambda x: x.of(x.matrix[start:stop]) if isinstance(x, SparseRows) else x[start:stop]
    rows, around = c.rows(index), c.around(op.reads[0])

    def run(x: Tensor | SparseRows) -> Tensor | SparseRows:
        if isinstance(x, SparseRows):
            return x.of(x.matrix[rows.cpu().numpy()])
        with around(x, rows):
            return gather_rows(x, rows)

    return run


@executes("scatter_add")
def _scatter_add(c: Context, op: Operator) -> Execution:
    if c.lies_in_host(op.writes[0]):
        return host_rows.added(c, op)
    index, last = op.attributes["index"], len(op.reads) - 1
    is_view = c.cycle.indexes[index].is_view
    start, stop = c.view(index) if is_view else (0, 0)
    rows, around = None if is_view else c.rows(index), c.around(op.writes[0])

    def run(x: Tensor, *base: Tensor) -> Tensor:
        out = writable(op, last, base[0]) if base else c.empty(op.writes[0], x.shape[1]).zero_()
        if rows is None:
            out[start:stop] += x
            return out
        with around(out, rows):
            return add_rows_(out, rows, x) if x.dtype == HALF else out.index_add_(0, rows, x)

    return run


@executes("put")
def _put(c: Context, op: Operator) -> Execution:
    """Consecutive rows are copied, others scattered. Without a base nothing is cleared, for all rows are put yet."""
    if c.lies_in_host(op.writes[0]):
        return host_rows.put(c, op)
    index, last = op.attributes["index"], len(op.reads) - 1
    is_view = c.cycle.indexes[index].is_view
    start, stop = c.view(index) if is_view else (0, 0)
    rows, around = None if is_view else c.rows(index), c.around(op.writes[0])

    def run(x: Tensor, *base: Tensor) -> Tensor:
        out = writable(op, last, base[0]) if base else c.empty(op.writes[0], x.shape[1])
        if rows is None:
            out[start:stop].copy_(x)
            return out
        with around(out, rows):
            return out.index_copy_(0, rows, x)

    return run


@executes("place")
def _place(c: Context, op: Operator) -> Execution:
    num_rows = c.num_rows(c.cycle.values[op.writes[0]].space)

    def run(*parts: Tensor | SparseRows) -> Tensor | SparseRows:
        first = parts[0]
        if isinstance(first, SparseRows):
            return first.of(sp.vstack([part.matrix for part in parts], format="csr"))  # type: ignore[union-attr]
        out = pool.empty(first.device, num_rows, first.shape[1], dtype=first.dtype)
        return torch.cat(parts, out=out)  # type: ignore[arg-type]

    return run


@executes("exchange")
def _exchange(c: Context, op: Operator) -> Execution:
    send, recv = c.projection.counts(op.attributes["route"], back=bool(op.attributes.get("back")))
    num_received, num_sent, rank = sum(recv), sum(send), c.projection.rank

    def run(x: Tensor | SparseRows) -> Tensor | Transfer | SparseRows:
        if isinstance(x, SparseRows):
            return exchange_sparse(c, x, send, recv)
        out = pool.empty(x.device, num_received, x.shape[1], dtype=x.dtype)
        c.sent_bytes += (num_sent - send[rank]) * x.shape[1] * x.element_size()
        return c.peers.exchange(out, x, recv, send)

    return run


def exchange_sparse(c: Context, x: SparseRows, send: tuple[int, ...], recv: tuple[int, ...]) -> SparseRows:
    """Rows to and from every worker: their lengths first, then columns and values."""
    matrix = x.matrix
    lengths = torch.from_numpy(np.diff(matrix.indptr).astype(np.int64)).to(c.device)
    got_lengths = _moved(c, lengths, recv, send)
    to, of = (
        [int(part.sum()) for part in each.split(list(counts))]
        for each, counts in ((lengths, send), (got_lengths, recv))
    )
    columns = _moved(c, torch.from_numpy(matrix.indices.astype(np.int32)).to(c.device), of, to)
    data = _moved(c, torch.from_numpy(matrix.data.astype(np.float32)).to(c.device), of, to)
    indptr = np.concatenate([[0], np.cumsum(got_lengths.cpu().numpy())])
    parts = (data.cpu().numpy(), columns.cpu().numpy(), indptr)
    return x.of(sp.csr_matrix(parts, shape=(sum(recv), matrix.shape[1])))


def _moved(c: Context, source: Tensor, recv, send) -> Tensor:
    out = source.new_empty(sum(recv))
    c.sent_bytes += source.nbytes
    return finished(c.peers.exchange(out, source, recv, send))


def finished(value):
    """A value that is here: one that is on its way is waited for."""
    return value.wait() if hasattr(value, "wait") else value


@executes("all_reduce")
def _all_reduce(c: Context, op: Operator) -> Execution:
    def run(x: Tensor) -> Tensor | Transfer:
        return c.peers.all_reduce(writable(op, 0, x))

    return run


@executes("flatten")
def _flatten(c: Context, op: Operator) -> Execution:
    width = c.cycle.values[op.writes[0]].width

    def run(*parts: Tensor) -> Tensor:
        out = pool.empty(parts[0].device, 1, width)
        torch.cat([part.reshape(-1) for part in parts], out=out[0])
        return out

    return run


@executes("unflatten")
def _unflatten(c: Context, op: Operator) -> Execution:
    shapes = [(c.num_rows(c.cycle.values[name].space), c.cycle.values[name].width) for name in op.attributes["like"]]

    def run(flat: Tensor) -> tuple[Tensor, ...]:
        parts = flat[0].split([rows * width for rows, width in shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    return run
