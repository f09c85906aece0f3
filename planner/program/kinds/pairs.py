"""Pairs of vertices that are scored, and edges among them that are ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation

_NUM_SPLITS, _NUM_SUMS = 3, 2


def _pair_score_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return (Value("", cycle.blocks[op.attributes["block"]].edges, 1),)


def _pair_score_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (heads, tails) = grads, op.reads
    assert grad
    shape = {"block": op.attributes["block"], "heads": 1}
    d.add(heads, lambda: d.emit("weigh", grad, tails, **shape))
    d.add(tails, lambda: d.emit("weigh", grad, heads, back=True, **shape))


PAIR_SCORE = register(
    Kind(
        "pair_score",
        "w = the inner product of r0 at a pair's head and r1 at its tail; pairs are the edges of the block",
        (Need.BLOCK_ROW, Need.COLUMN),
        _pair_score_shape,
        _pair_score_derive,
        is_whole=True,
    )
)
RANKS = register(
    Kind(
        "ranks",
        "w = what `metric` sums up, of scores r0 of pairs: how high edges of each split are among the pairs of their "
        "head that are none, as r1 tells; pairs are of rows of the value `of`",
        (Need.EDGE,),
        lambda cycle, op: (Value("", parameter_space(_NUM_SPLITS), _NUM_SUMS),),
    )
)
