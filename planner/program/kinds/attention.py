"""Sums over edges with attention (Velickovic et al. 2018, eq. 1-4), in parts that may be over parts of a halo.

Shapes: H heads; rows have H * C columns, scores one column a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.kinds.sparse import made_rows
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


def _of_heads(space: str, op: Operator) -> Value:
    return Value("", space, op.attributes["heads"])


def _dot_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (x, vector) = grads, op.reads
    assert grad
    heads = op.attributes["heads"]
    d.add(vector, lambda: d.emit("dot_gram", grad, x, vector, heads=heads))
    d.add(x, lambda: d.emit("dot_grad", grad, vector, heads=heads))


DOT = register(
    Kind(
        "dot",
        "w = the inner product of r0 and r1 in every head",
        (Need.ROW, Need.WHOLE),
        lambda cycle, op: (_of_heads(cycle.values[op.reads[0]].space, op),),
        _dot_derive,
        by_row=True,
    )
)
DOT_GRAD = register(
    Kind(
        "dot_grad",
        "w = r1 times r0 in every head",
        (Need.ROW, Need.WHOLE, Need.ROW),
        lambda cycle, op: (Value("", cycle.values[op.reads[0]].space, cycle.values[op.reads[1]].width),),
        by_row=True,
        takes_base=True,
    )
)
DOT_GRAM = register(
    Kind("dot_gram", "w = r1 weighted by r0 in every head, summed over rows; r2 gives the shape", (Need.OWN,), like(2))
)


def _score_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    to_source, to_target = d.emit_all("score_grad", grad, *op.reads, **op.attributes)
    d.give(op.reads[0], to_source)
    d.give(op.reads[1], to_target)


SCORE = register(
    Kind(
        "score",
        "w = leaky_relu(r0 at the edge's source + r1 at its target)",
        (Need.COLUMN, Need.BLOCK_ROW),
        lambda cycle, op: (_of_heads(cycle.blocks[op.attributes["block"]].edges, op),),
        _score_derive,
    )
)


def _score_grad_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    block = cycle.blocks[op.attributes["block"]]
    return _of_heads(block.column, op), _of_heads(block.row, op)


SCORE_GRAD = register(
    Kind("score_grad", "w0, w1 = r0 at every edge, summed at sources and at targets", (Need.EDGE,), _score_grad_shape)
)


def _edge_shapes(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return tuple(_of_heads(cycle.blocks[name].edges, op) for name in op.attributes["blocks"])


def _softmax_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    assert all(grads), "an attention coefficient that nobody uses"
    to_scores = d.emit_all("softmax_grad", *(grad for grad in grads if grad), *op.writes, **op.attributes)
    for name, grad in zip(op.reads, to_scores, strict=True):
        d.give(name, grad)


SOFTMAX = register(
    Kind(
        "softmax",
        "w = the softmax of scores over each target's edges, in all `blocks` together",
        (Need.EDGE,),
        _edge_shapes,
        _softmax_derive,
    )
)
SOFTMAX_GRAD = register(
    Kind(
        "softmax_grad",
        "w = the gradients at scores; reads are gradients, then coefficients",
        (Need.EDGE,),
        _edge_shapes,
    )
)


def _weigh_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (alpha, x) = grads, op.reads[:2]
    assert grad
    shape, back = {"block": op.attributes["block"], "heads": op.attributes["heads"]}, op.attributes.get("back", False)
    d.add(alpha, lambda: d.emit("weigh_grad", *((x, grad) if back else (grad, x)), **shape))
    d.add(x, lambda: d.emit("weigh", alpha, grad, back=not back, **shape))
    d.pass_base(op, grad)


def _weigh_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x = cycle.values[op.reads[1]]
    return (Value("", made_rows(cycle, op), x.width, x.columns),)


WEIGH = register(
    Kind(
        "weigh",
        "w = the sum over edges of r0 times r1 at the edge's source, in every head; with `back` the way back",
        (Need.EDGE, Need.COLUMN, Need.ROW),
        _weigh_shape,
        _weigh_derive,
        by_column=True,
        takes_base=True,
    )
)
WEIGH_GRAD = register(
    Kind(
        "weigh_grad",
        "w = the inner product of r0 at the edge's target and r1 at its source, in every head",
        (Need.BLOCK_ROW, Need.COLUMN),
        lambda cycle, op: (_of_heads(cycle.blocks[op.attributes["block"]].edges, op),),
    )
)
