"""A layer of somebody's own: their code runs on the rows that a worker gathers, and no word of it stands here.

The block of such a layer has an entry for every edge, and one for every row itself, whose value is zero. So the rows
that are made are among those that are gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation

_MEANT_IN = "gnnplan.planner.program.sequential.meanings_layer"
_EXECUTED_IN = "gnnplan.runtime.execution.layer"
_MOST = 2**40  # of a count of one row or edge
COUNTS = ("touched", "products", "num_bytes")
"""Attributes of what was counted on sample rows: [forward, backward], each for the call, a row and an edge."""


def counted(attributes: Mapping[str, Any], name: str, rows: int, edges: int, *, back: bool) -> int:
    """What a call on so many rows and edges comes to.

    Args:
        name: of `COUNTS`: elements that are read or written, multiplications of matrix products, or bytes made.
        back: of the gradient, which runs the layer again.
    """
    call, row, edge = attributes[name][back]
    return int(call + row * rows + edge * edges)


def num_edges(cycle: Cycle, op: Operator, worker: int) -> int:
    """Edges of a layer's block, without the entries of the rows themselves."""
    block = cycle.blocks[op.attributes["block"]]
    return max(block.num_edges[worker] - cycle.spaces[block.row].sizes[worker], 0)


def _layer_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    counts = [each for name in COUNTS for half in op.attributes[name] for each in half]
    assert len(counts) == 6 * len(COUNTS)
    assert all(0 <= each <= _MOST for each in counts)
    assert len(op.reads) == op.attributes["num_values"] + len(op.attributes["parameters"])
    block, edge_width = cycle.blocks[op.attributes["block"]], op.attributes["edge_width"]
    rows = Value("", block.row, op.attributes["width"])
    return (rows, Value("", block.edges, edge_width)) if edge_width else (rows,)


def _layer_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    of = tuple(number for number, grad in enumerate(grads) if grad)
    wanted = tuple(number for number, name in enumerate(op.reads) if d.wants(name))
    given = [grad for grad in grads if grad]
    made = d.emit_all("layer_grad", *given, *op.reads, grads_of=of, wanted=wanted, **op.attributes)
    for number, to in zip(wanted, made, strict=True):
        d.give(op.reads[number], to)


LAYER = register(
    Kind(
        "layer",
        "w = the layer at `module` of the rows that come first, values on edges and parameters behind them; with an "
        "`edge_width` also what it makes on edges",
        (Need.COLUMN,),
        _layer_shape,
        _layer_derive,
        is_whole=True,
        meant_in=_MEANT_IN,
        executed_in=_EXECUTED_IN,
    )
)


def _layer_grad_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    first = len(op.attributes["grads_of"])
    reads = (cycle.values[op.reads[first + number]] for number in op.attributes["wanted"])
    return tuple(Value("", each.space, each.width) for each in reads)


LAYER_GRAD = register(
    Kind(
        "layer_grad",
        "w = the gradients at the `wanted` reads of a layer, which runs again; those at what it made come first",
        (Need.BLOCK_ROW, Need.COLUMN),
        _layer_grad_shape,
        is_whole=True,
        meant_in=_MEANT_IN,
        executed_in=_EXECUTED_IN,
    )
)


def _on_block_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    attributes = op.attributes
    d.add(op.reads[0], lambda: d.emit("on_block", grad, block=attributes["of"], of=attributes["block"]))


ON_BLOCK = register(
    Kind(
        "on_block",
        "w = r0 as values on the edges of `block`, which are those of the block `of`",
        (Need.EDGE,),
        lambda cycle, op: (Value("", cycle.blocks[op.attributes["block"]].edges, cycle.values[op.reads[0]].width),),
        _on_block_derive,
        meant_in=_MEANT_IN,
        executed_in=_EXECUTED_IN,
    )
)
