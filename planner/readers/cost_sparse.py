"""Seconds of sums over edges."""

from __future__ import annotations

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs, guess, with_base
from gnnplan.profiles.curves import Estimate


@costs("aggregate")
def _aggregate(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    x, num_edges = cycle.values[op.reads[0]], cycle.blocks[op.attributes["block"]].num_edges[worker]
    rows, num_read = cycle.num_rows(op.writes[0], worker), cycle.num_rows(x.name, worker)
    if x.layout == "csr":
        entries_per_row = cycle.num_elements(x.name, worker) / max(num_read, 1)  # each edge adds as many
        return guess(_spmm(op, cost, rows, num_edges, entries_per_row, num_read))
    work = _spmm(op, cost, rows, num_edges, x.num_columns(worker), num_read)
    return with_base(cycle, op, worker, cost, work)


def _spmm(op: Operator, cost: OperatorCosts, rows: int, num_edges: int, width: float, num_read: int) -> Estimate:
    spmm = cost.spmm_transposed if op.attributes.get("back") else cost.spmm
    return spmm(rows, num_edges, width, num_read)  # type: ignore[arg-type]


@costs("weigh")
def _weigh(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Forward as the whole kernel that was measured; backward a half of its own.

    The kernel backward goes over the edges twice, and each time reads a row at every edge: once for the gradients at
    the rows (this operator), once for those at the coefficients (`weigh_grad`). So each is a half.
    """
    if op.attributes.get("back"):
        work = _attention("gat_backward", cycle, op, worker, cost).times(0.5)
    else:
        work = _attention("gat_forward", cycle, op, worker, cost)
    return guess(with_base(cycle, op, worker, cost, work))


@costs("weigh_grad")
def _weigh_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """The other half of the kernel backward, as `weigh` says."""
    return guess(_attention("gat_backward", cycle, op, worker, cost).times(0.5))


def _attention(table: str, cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """By targets, their mean degree, and the width over all heads."""
    block = cycle.blocks[op.attributes["block"]]
    rows, width = cycle.spaces[block.row].sizes[worker], cycle.values[op.reads[1]].num_columns(worker)
    return cost(table, rows, block.num_edges[worker] / rows, width) if rows else ZERO


@costs("dot", "dot_grad", "dot_gram", "score", "score_grad", "softmax", "softmax_grad")
def _elementwise(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """As an addition of as many elements as its largest read has, or as it writes where that is more."""
    read, written = ([cycle.num_elements(name, worker) for name in names] for names in (op.reads, op.writes))
    work = cost("add", max(*read, sum(written)))
    return guess(with_base(cycle, op, worker, cost, work))
