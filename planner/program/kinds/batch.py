"""Stages of a mini-batch. They are played once for every batch, in the order that a policy finds while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Tier, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle


def _batch(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    """Rows of its vertices, and its edges."""
    rows, edges = op.attributes["spaces"]
    tier: Tier = op.attributes["tier"]
    return Value("", rows, op.attributes["width"], tier=tier), Value("", edges, 2, dtype="int64", tier=tier)


MAKE_BATCH = register(
    Kind(
        "make_batch",
        "w0 = the rows of a batch's vertices, sampled and gathered; w1 its edges",
        (Need.WHOLE,),
        _batch,
        streamed=True,
    )
)
MOVE_BATCH = register(
    Kind("move_batch", "w0, w1 = the batch r0, r1 on the device", (Need.WHOLE,), _batch, streamed=True)
)
TRAIN_BATCH = register(
    Kind(
        "train_batch",
        "w = the loss of the batch r0, r1 by the model r2, after forward, backward and a step",
        (Need.WHOLE,),
        lambda cycle, op: (Value("", parameter_space(1), 1),),
        streamed=True,
    )
)
