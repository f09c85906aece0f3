"""Rows turned into columns, and back. Sparse rows are cut where they are sent, which is before training alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import scipy.sparse as sp
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import Execution, executes
from gnnplan.runtime.execution.travel import exchange_sparse
from gnnplan.runtime.transfer import Transfer


@executes("pack_columns")
def _pack(c: Context, op: Operator) -> Execution:
    def run(x: Tensor | SparseRows) -> Tensor | SparseRows:
        if isinstance(x, SparseRows):
            return x
        out = pool.empty_like(x)
        for part, of_rows in _slices(op, out, x):
            part.copy_(of_rows)
        return out

    return run


@executes("unpack_columns")
def _unpack(c: Context, op: Operator) -> Execution:
    def run(packed: Tensor | SparseRows) -> Tensor | SparseRows:
        if isinstance(packed, SparseRows):
            return packed
        out = pool.empty_like(packed)
        for part, of_rows in _slices(op, packed, out):
            of_rows.copy_(part)
        return out

    return run


def _slices(op: Operator, packed: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Views [n, heads, channels] of every slice: where it stands packed, and among the rows."""
    heads, (num_rows, width) = op.attributes["heads"], rows.shape
    flat, by_head = packed.view(-1), rows.view(num_rows, heads, width // heads)
    for start, stop in op.attributes["columns"]:
        part = flat[num_rows * start : num_rows * stop]
        yield (
            part.view(num_rows, heads, (stop - start) // heads),
            by_head[:, :, start // heads : stop // heads],
        )


@executes("transpose")
def _transpose(c: Context, op: Operator) -> Execution:
    rank, back = c.projection.rank, op.attributes["back"]
    (num_own, *_), rows = c.projection.counts(op.attributes["route"], back=False)
    widths = [stop - start for start, stop in op.attributes["columns"]]
    sliced, whole = [count * widths[rank] for count in rows], [num_own * width for width in widths]
    send, recv = (sliced, whole) if back else (whole, sliced)
    shape = (num_own, sum(widths)) if back else (sum(rows), widths[rank])

    def run(x: Tensor | SparseRows) -> Tensor | Transfer | SparseRows:
        if isinstance(x, SparseRows):
            return _gathered(c, x, rows, num_own, widths) if back else _split(c, x, rows, num_own, widths)
        out = pool.empty(x.device, *shape)
        c.sent_bytes += x.nbytes - send[rank] * x.element_size()
        moved = c.peers.exchange(out.view(-1), x.view(-1), recv, send)
        return moved.view(*shape)

    return run


def _split(c: Context, x: SparseRows, rows: tuple[int, ...], num_own: int, widths: list[int]) -> SparseRows:
    """All rows, of this worker's columns."""
    bounds = [0, *accumulate(widths)]
    slices = [_widened(x.matrix[:, start:stop], max(widths)) for start, stop in pairwise(bounds)]
    got = exchange_sparse(c, x.of(sp.vstack(slices, format="csr")), (num_own,) * len(rows), rows)
    return x.of(got.matrix[:, : widths[c.projection.rank]])


def _gathered(c: Context, x: SparseRows, rows: tuple[int, ...], num_own: int, widths: list[int]) -> SparseRows:
    """This worker's rows, of all columns."""
    got = exchange_sparse(c, x.of(_widened(x.matrix, max(widths))), rows, (num_own,) * len(rows)).matrix
    slices = [got[num_own * p : num_own * (p + 1), :width] for p, width in enumerate(widths)]
    return x.of(sp.hstack(slices, format="csr"))


def _widened(matrix: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """The same entries in more columns, for what travels together is as wide."""
    return sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
