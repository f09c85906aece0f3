"""Rows turned into columns, and back. Sparse rows are cut where they are sent, which is before training alone."""

from __future__ import annotations

import scipy.sparse as sp
from torch import Tensor

from gnnplan.planner.program.kinds.columns import Slices, slices_of
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.columns import pack_columns_, unpack_columns_
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import Execution, executes
from gnnplan.runtime.execution.travel import exchange_sparse
from gnnplan.runtime.transfer import Transfer


@executes("pack_columns")
def _pack(c: Context, op: Operator) -> Execution:
    slices = slices_of(op, c.projection.rank)

    def run(x: Tensor | SparseRows) -> Tensor | SparseRows:
        if isinstance(x, SparseRows):
            return x
        return pack_columns_(pool.empty_like(x), x, slices, op.attributes["heads"])

    return run


@executes("unpack_columns")
def _unpack(c: Context, op: Operator) -> Execution:
    slices = slices_of(op, c.projection.rank)

    def run(packed: Tensor | SparseRows) -> Tensor | SparseRows:
        if isinstance(packed, SparseRows):
            return packed
        return unpack_columns_(pool.empty_like(packed), packed, slices, op.attributes["heads"])

    return run


@executes("transpose")
def _transpose(c: Context, op: Operator) -> Execution:
    rank, back = c.projection.rank, op.attributes["back"]
    own, rows = c.projection.counts(op.attributes["route"], back=False)  # nothing to and from workers of other groups
    widths = [stop - start for start, stop in op.attributes["columns"]]
    sliced = [count * widths[rank] for count in rows]
    whole = [count * width for count, width in zip(own, widths, strict=True)]
    send, recv = (sliced, whole) if back else (whole, sliced)
    width = sum(stop - start for start, stop in slices_of(op, rank))
    shape = (own[rank], width) if back else (sum(rows), widths[rank])

    def run(x: Tensor | SparseRows) -> Tensor | Transfer | SparseRows:
        if isinstance(x, SparseRows):
            return _gathered(c, op, x, rows, own) if back else _split(c, op, x, rows, own)
        out = pool.empty(x.device, *shape)
        c.sent_bytes += x.nbytes - send[rank] * x.element_size()
        moved = c.peers.exchange(out.view(-1), x.view(-1), recv, send)
        return moved.view(*shape)

    return run


def _split(c: Context, op: Operator, x: SparseRows, rows: tuple[int, ...], own: tuple[int, ...]) -> SparseRows:
    """All rows of the group, of this worker's columns."""
    rank, slices = c.projection.rank, slices_of(op, c.projection.rank)
    parts = [_widened(x.matrix[:, start:stop], _widest(slices)) for start, stop in slices]
    got = exchange_sparse(c, x.of(sp.vstack(parts, format="csr")), own, rows)
    start, stop = op.attributes["columns"][rank]
    return x.of(got.matrix[:, : stop - start])


def _gathered(c: Context, op: Operator, x: SparseRows, rows: tuple[int, ...], own: tuple[int, ...]) -> SparseRows:
    """This worker's rows, of all columns."""
    rank, slices = c.projection.rank, slices_of(op, c.projection.rank)
    got = exchange_sparse(c, x.of(_widened(x.matrix, _widest(slices))), rows, own).matrix
    num_own = own[rank]
    parts = [got[num_own * p : num_own * (p + 1), : stop - start] for p, (start, stop) in enumerate(slices)]
    return x.of(sp.hstack(parts, format="csr"))


def _widest(slices: Slices) -> int:
    return max(stop - start for start, stop in slices)


def _widened(matrix: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """The same entries in more columns, for what travels together is as wide."""
    return sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
