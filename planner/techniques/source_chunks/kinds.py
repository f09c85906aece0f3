"""Kinds of moving aggregates, with what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gnnplan.planner import attention_costs
from gnnplan.planner.attention_costs import BlockShape
from gnnplan.planner.costs import ZERO, OperatorCosts, total
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.readers.cost import copied_first, costs, guess, num_written
from gnnplan.planner.readers.temporaries import TEMPORARIES
from gnnplan.profiles.curves import Estimate

if TYPE_CHECKING:
    from gnnplan.planner.program.derive import Derivation

EMPTY = -1e30
"""The logarithm of no mass at all: finite, so that the difference of two of them is no NaN."""
_MEANT_IN = "gnnplan.planner.techniques.source_chunks.meanings"
_EXECUTED_IN = "gnnplan.runtime.techniques.source_chunks.operators"


def _brought(kind: Kind) -> Kind:
    return register(replace(kind, meant_in=_MEANT_IN, executed_in=_EXECUTED_IN))


def _fold_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    fresh = cycle.values[op.reads[0]]
    assert cycle.blocks[op.attributes["block"]].row == fresh.space
    of = Value("", fresh.space, fresh.width, fresh.columns)
    return of, of


def _fold_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    grad, factor = grads[0], op.attributes["gradient_factor"]
    assert grad
    if factor == 1:
        d.give(op.reads[0], grad)
    else:
        d.add(op.reads[0], lambda: d.emit("scale", grad, factor=factor))
    d.pass_base(op, grad)


FOLD = _brought(
    Kind(
        "fold",
        "w1 = r0 + block @ r1, a state that moves on, and w0 the same with the base; the block is diagonal. What is "
        "left of the state has no gradient; that of r0 is times `gradient_factor`",
        (Need.ROW, Need.COLUMN, Need.ROW),
        _fold_shape,
        _fold_derive,
        takes_base=True,
        inplace=(0,),
        holds="diagonal",
    )
)


FOLD_FOLLOWING = _brought(
    replace(
        FOLD,
        name="fold_following",
        meaning="as `fold`, of the state r1 moved by how far the mean row has come, r2 less r3, times the diagonal of "
        "`blocks`; w2 = r2",
        needs=(Need.ROW, Need.COLUMN, Need.WHOLE, Need.WHOLE, Need.ROW),
        shape=lambda cycle, op: (*_fold_shape(cycle, op), *like(2)(cycle, op)),
    )
)


FOLLOW = _brought(
    Kind(
        "follow",
        "w0 = r0 moved by how far the mean row has come, r1 less r2, times the diagonal block; w1 = r1",
        (Need.COLUMN, Need.WHOLE, Need.WHOLE),
        lambda cycle, op: (*like()(cycle, op), *like(1)(cycle, op)),
        holds="diagonal",
    )
)


def _on_edges(cycle: Cycle, block: str, op: Operator) -> Value:
    return Value("", cycle.blocks[block].edges, op.attributes["heads"])


MASS_LEFT = _brought(
    Kind(
        "mass_left",
        "w = r0 + log(block) on the edges of the diagonal block: the logarithm of what is left of a softmax's mass; "
        "where r0 is zero there is none",
        (Need.COLUMN,),
        lambda cycle, op: (_on_edges(cycle, op.attributes["block"], op),),
        holds="diagonal",
    )
)


def _log_sum_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    to_scores = d.emit_all("log_sum_grad", grad, *op.reads, op.writes[0], **op.attributes)
    for name, to_score in zip(op.reads, to_scores, strict=True):
        d.give(name, to_score)


LOG_SUM = _brought(
    Kind(
        "log_sum",
        "w = log of the sum of exp of scores over each target's edges, in all `blocks` together, on the edges of the "
        "diagonal block `onto`; never zero",
        (Need.EDGE,),
        lambda cycle, op: (_on_edges(cycle, op.attributes["onto"], op),),
        _log_sum_derive,
    )
)
LOG_SUM_GRAD = _brought(
    Kind(
        "log_sum_grad",
        "w = the gradients at scores; reads are r0 at the sum, the scores, and the sum",
        (Need.EDGE,),
        lambda cycle, op: tuple(_on_edges(cycle, block, op) for block in op.attributes["blocks"]),
    )
)


def _scale_mass_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.give(op.reads[0], grad)


SCALE_MASS = _brought(
    Kind(
        "scale_mass",
        "w = r0 + log of the second of `blocks`, both diagonal and r0 on the edges of the first; never zero",
        (Need.EDGE,),
        lambda cycle, op: (_on_edges(cycle, op.attributes["blocks"][0], op),),
        _scale_mass_derive,
        holds="diagonal",
    )
)


def _keep_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    of = cycle.values[op.reads[0]]
    block = op.attributes.get("block")
    return (Value("", cycle.blocks[block].row if block else of.space, of.width, of.columns),)


KEEP = _brought(
    Kind(
        "keep",
        "w = r0, where r1 stands and stays; with `block` r0 is on the edges of that diagonal block, and w on its rows",
        (Need.ROW,),
        _keep_shape,
        holds="diagonal",
    )
)


@costs("fold", "fold_following")
def _fold(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Passes: one lets the state follow the mean, one moves it on, the last copies it or adds the base to it."""
    count = num_written(cycle, op, worker)
    first = cost.copy(count) if op.kind == "fold_following" else ZERO
    last = cost("add", count) if op.has_base else cost.copy(count)
    return guess(total([copied_first(cycle, op, worker, cost), first, cost("add", count), last]))


@costs("mass_left", "scale_mass", "keep", "follow")
def _copied(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(num_written(cycle, op, worker)))


@costs("log_sum", "log_sum_grad")
def _log_sum(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """As a softmax over the same edges."""
    table = "edge_softmax" if op.kind == "log_sum" else "edge_softmax_backward"
    shapes = (BlockShape.of(cycle, name, worker) for name in op.attributes["blocks"])
    return guess(total(attention_costs.softmax(cost, table, each, op.attributes["heads"]) for each in shapes))


def _log_sum_bytes(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """Of every target the greatest score and the sum, and of the largest block a weight of every edge.

    On CUDA the target's greatest score lies beside the weight.
    """
    rows = cycle.spaces[cycle.blocks[op.attributes["onto"]].row].sizes[worker] * op.attributes["heads"] * 4
    return [rows, rows, *_of_edges_bytes(cycle, op, worker, on_cuda) * (2 if on_cuda else 1)]


def _of_edges_bytes(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """A number a head for every edge of the largest block, as what comes from the targets is."""
    edges = [cycle.blocks[name].num_edges[worker] for name in op.attributes["blocks"]]
    return [max(edges) * op.attributes["heads"] * 4]


TEMPORARIES["log_sum"] = _log_sum_bytes
TEMPORARIES["log_sum_grad"] = _of_edges_bytes
