"""Seconds of sums over edges, and of attention."""

from __future__ import annotations

from gnnplan.planner import attention_costs
from gnnplan.planner.attention_costs import BlockShape
from gnnplan.planner.costs import OperatorCosts, total
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import costs, guess, num_written, with_base
from gnnplan.profiles.curves import Estimate

_COPIES_A_SORT = 20
"""Of a row of what is told: sorting is that much slower than copying, roughly."""


@costs("aggregate")
def _aggregate(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    x, block = cycle.values[op.reads[0]], cycle.blocks[op.attributes["block"]]
    num_edges, in_use = block.num_edges[worker], block.in_use[bool(op.attributes.get("back"))]
    rows, num_read = cycle.num_rows(op.writes[0], worker), cycle.num_rows(x.name, worker)
    if x.layout == "csr":
        entries_per_row = cycle.num_elements(x.name, worker) / max(num_read, 1)  # each edge adds as many
        return guess(_spmm(op, cost, rows, num_edges, entries_per_row, num_read, in_use))
    if x.dtype == "bfloat16":
        work = cost.gathered("spmm_half", rows, num_edges, x.num_columns(worker), num_read, in_use)
    else:
        work = _spmm(op, cost, rows, num_edges, x.num_columns(worker), num_read, in_use)
    return with_base(cycle, op, worker, cost, work)


def _spmm(
    op: Operator, cost: OperatorCosts, rows: int, num_edges: int, width: float, num_read: int, in_use: float
) -> Estimate:
    spmm = cost.spmm_transposed if op.attributes.get("back") else cost.spmm
    return spmm(rows, num_edges, width, num_read, in_use)


@costs("weigh")
def _weigh(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """The kernel was measured adding; where there is no base, the result is cleared first, which only writes."""
    width, back = cycle.values[op.reads[1]].num_columns(worker), bool(op.attributes.get("back"))
    work = attention_costs.weighed(cost, _shape(cycle, op, worker), width, op.attributes["heads"], back=back)
    if op.has_base:
        return with_base(cycle, op, worker, cost, work)
    return total([cost.copy(num_written(cycle, op, worker) / 2), work])


@costs("pair_score")
def _pair_score(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """As the gradient of attention, which computes the same."""
    width = cycle.values[op.reads[1]].num_columns(worker)
    return attention_costs.edge_dots(cost, _shape(cycle, op, worker), width, 1)


@costs("ranks")
def _ranks(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """It sorts, which is said as some copies of what it reads."""
    return guess(cost.copy(_COPIES_A_SORT * cycle.num_elements(op.reads[1], worker)))


@costs("weigh_grad")
def _weigh_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    width = cycle.values[op.reads[1]].num_columns(worker)
    return attention_costs.edge_dots(cost, _shape(cycle, op, worker), width, op.attributes["heads"])


@costs("score", "score_grad")
def _score(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    table = "edge_scores" if op.kind == "score" else "edge_scores_backward"
    return attention_costs.scores(cost, table, _shape(cycle, op, worker), op.attributes["heads"])


@costs("softmax", "softmax_grad")
def _softmax(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Block by block, as the kernel goes over them."""
    table = "edge_softmax" if op.kind == "softmax" else "edge_softmax_backward"
    shapes = (BlockShape.of(cycle, name, worker) for name in op.attributes["blocks"])
    return total(attention_costs.softmax(cost, table, shape, op.attributes["heads"]) for shape in shapes)


@costs("dot", "dot_gram")
def _dot(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    table, x = ("head_dots", op.reads[0]) if op.kind == "dot" else ("head_dots_to_vector", op.reads[1])
    rows, width = cycle.num_rows(x, worker), cycle.values[x].num_columns(worker)
    return attention_costs.of_rows(cost, table, rows, width, op.attributes["heads"])


@costs("dot_grad")
def _dot_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    rows, width = cycle.num_rows(op.writes[0], worker), cycle.values[op.writes[0]].num_columns(worker)
    work = attention_costs.of_rows(cost, "head_dots_to_rows", rows, width, op.attributes["heads"])
    return with_base(cycle, op, worker, cost, work)


@costs("average_heads", "spread_heads")
def _heads(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    all_heads = op.reads[0] if op.kind == "average_heads" else op.writes[0]
    rows, width = cycle.num_rows(all_heads, worker), cycle.values[all_heads].num_columns(worker)
    return attention_costs.of_rows(cost, op.kind, rows, width, op.attributes["heads"])


def _shape(cycle: Cycle, op: Operator, worker: int) -> BlockShape:
    return BlockShape.of(cycle, op.attributes["block"], worker)
