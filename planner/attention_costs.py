"""Seconds of GAT's operators over edges and heads, for programs and for the old lowering alike.

Rows were measured with `GAT_HEADS` heads: with another number the figure is that of as wide rows, and a guess. Scores
have heads as an axis of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.over_edges import GAT_HEADS

if TYPE_CHECKING:
    from gnnplan.planner.costs import OperatorCosts
    from gnnplan.planner.shapes import WorkerShape
    from gnnplan.planner.steps import Step


@dataclass(frozen=True)
class BlockShape:
    """One worker's part of a block.

    Args:
        rows: targets.
        num_read: sources.
    """

    rows: int
    num_read: int
    num_edges: int


def scores(cost: OperatorCosts, table: str, block: BlockShape, heads: int) -> Estimate:
    """Of every edge from the scores of its ends, and back."""
    return cost.gathered(table, block.rows, block.num_edges, heads, block.num_read)


def softmax(cost: OperatorCosts, table: str, block: BlockShape, heads: int) -> Estimate:
    """A block's part of a softmax, there or back; it reads every edge in order."""
    return cost(table, block.rows, block.num_edges / block.rows, heads) if block.rows else cost(table, 0, 0, heads)


def weighed(cost: OperatorCosts, block: BlockShape, width: int, heads: int, *, back: bool = False) -> Estimate:
    """Rows added to a sum over edges. Back one thread goes from target to target, several from source to source."""
    if not back:
        return of_heads(cost.gathered("weigh", block.rows, block.num_edges, width, block.num_read), heads)
    rows, num_read = block.rows, block.num_read
    if cost.profile.device_kind == "cpu" and cost.profile.num_threads > 1:
        rows, num_read = num_read, rows
    return of_heads(cost.gathered("weigh_transposed", rows, block.num_edges, width, num_read), heads)


def edge_dots(cost: OperatorCosts, block: BlockShape, width: int, heads: int) -> Estimate:
    """Inner products of both ends' rows at every edge."""
    return of_heads(cost.gathered("edge_dots", block.rows, block.num_edges, width, block.num_read), heads)


def of_rows(cost: OperatorCosts, table: str, rows: int, width: int, heads: int) -> Estimate:
    """What is done to rows of several heads, by their number and whole width."""
    return of_heads(cost(table, rows, width), heads)


def of_heads(estimate: Estimate, heads: int) -> Estimate:
    """An estimate of rows with so many heads; nothing to do stays certain."""
    return estimate if heads == GAT_HEADS or not estimate.seconds else replace(estimate, unprofiled=True)


def attend_forward(step: Step, shape: WorkerShape, cost: OperatorCosts) -> Iterator[Estimate]:
    """The old lowering's attention as the operators that a program has in its place."""
    n, width, heads = shape.num_local, step.in_width, step.heads
    for rows in (n, n, shape.num_halo):
        yield of_rows(cost, "head_dots", rows, width, heads)
    yield cost.copy(n * width / 2)  # sums are cleared, which only writes
    for block in _blocks(shape):
        yield scores(cost, "edge_scores", block, heads)
        yield softmax(cost, "edge_softmax", block, heads)
        yield weighed(cost, block, width, heads)
    if step.out_widths[0] < width:
        yield of_rows(cost, "average_heads", n, width, heads)


def attend_backward(step: Step, shape: WorkerShape, cost: OperatorCosts) -> Iterator[Estimate]:
    """The same on the way back."""
    n, width, heads = shape.num_local, step.in_width, step.heads
    if step.out_widths[0] < width:
        yield of_rows(cost, "spread_heads", n, width, heads)
    yield cost.copy((n + shape.num_halo) * width / 2)
    for block in _blocks(shape):
        yield edge_dots(cost, block, width, heads)
        yield weighed(cost, block, width, heads, back=True)
        yield softmax(cost, "edge_softmax_backward", block, heads)
        yield scores(cost, "edge_scores_backward", block, heads)
    for rows in (n, n, shape.num_halo):
        yield of_rows(cost, "head_dots_to_vector", rows, width, heads)
        yield of_rows(cost, "head_dots_to_rows", rows, width, heads)


def _blocks(shape: WorkerShape) -> tuple[BlockShape, BlockShape]:
    n = shape.num_local
    return BlockShape(n, n, shape.local_edges), BlockShape(n, shape.num_halo, shape.remote_edges)
