"""Seconds of GAT's operators over edges and heads, from a profile's tables.

Rows were measured with `GAT_HEADS` heads: with another number the figure is that of as wide rows, and a guess. Scores
have heads as an axis of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.over_edges import GAT_HEADS

if TYPE_CHECKING:
    from gnnplan.planner.costs import OperatorCosts
    from gnnplan.planner.program.cycle import Cycle


@dataclass(frozen=True)
class BlockShape:
    """One worker's part of a block.

    Args:
        rows: targets.
        num_read: sources.
        in_use: of sources, and back of targets, the share in use (`gnnplan.planner.program.in_use`).
    """

    rows: int
    num_read: int
    num_edges: int
    in_use: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, cycle: Cycle, name: str, worker: int) -> BlockShape:
        """A worker's part of a block of a cycle."""
        block = cycle.blocks[name]
        rows, num_read = (cycle.spaces[space].sizes[worker] for space in (block.row, block.column))
        return cls(rows, num_read, block.num_edges[worker], block.in_use)

    def gathered(self, cost: OperatorCosts, table: str, width: int) -> Estimate:
        """What gathers sources for targets, in the order of targets."""
        return cost.gathered(table, self.rows, self.num_edges, width, self.num_read, self.in_use[0])


def scores(cost: OperatorCosts, table: str, block: BlockShape, heads: int) -> Estimate:
    """Of every edge from the scores of its ends, and back."""
    return block.gathered(cost, table, heads)


def softmax(cost: OperatorCosts, table: str, block: BlockShape, heads: int) -> Estimate:
    """A block's part of a softmax, there or back; it reads every edge in order."""
    return cost(table, block.rows, block.num_edges / block.rows, heads) if block.rows else cost(table, 0, 0, heads)


def weighed(cost: OperatorCosts, block: BlockShape, width: int, heads: int, *, back: bool = False) -> Estimate:
    """Rows added to a sum over edges. Back one thread goes from target to target, several from source to source."""
    if not back:
        return of_heads(block.gathered(cost, "weigh", width), heads)
    if cost.profile.device_kind == "cpu" and cost.profile.num_threads > 1:
        block = BlockShape(block.num_read, block.rows, block.num_edges, block.in_use[::-1])
    return of_heads(block.gathered(cost, "weigh_transposed", width), heads)


def edge_dots(cost: OperatorCosts, block: BlockShape, width: int, heads: int) -> Estimate:
    """Inner products of both ends' rows at every edge."""
    return of_heads(block.gathered(cost, "edge_dots", width), heads)


def of_rows(cost: OperatorCosts, table: str, rows: int, width: int, heads: int) -> Estimate:
    """What is done to rows of several heads, by their number and whole width."""
    return of_heads(cost(table, rows, width), heads)


def of_heads(estimate: Estimate, heads: int) -> Estimate:
    """An estimate of rows with so many heads; nothing to do stays certain."""
    return estimate if heads == GAT_HEADS or not estimate.seconds else replace(estimate, unprofiled=True)
