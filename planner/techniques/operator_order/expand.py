"""A polynomial graph filter as products and aggregations, in either order.

`sum_k A^k X W_k` costs K aggregations either way: of the input's width where rows are aggregated first, and of the
output's where they are multiplied first, for then Horner's rule adds every product on the way. Where every term has a
matrix of its own, `sum_k A_k X W_k`, each is aggregated once either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnnplan.planner.job_pins import OpOrder
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.techniques.operator_order.attention import RowsFirst, one_headed


def expand_filters(cycle: Cycle, order_of: Mapping[str, OpOrder]) -> Cycle:
    """The cycle with every `filter` and attention in the order of its key, else multiplied first.

    Args:
        order_of: by the key of a filter, or of what sums an attention of one head.
    """
    emitter = Emitter(cycle)
    for name, program in cycle.programs.items():
        attentions = one_headed(cycle, program).items()
        rows_first = RowsFirst(emitter, (of for key, of in attentions if order_of.get(key) == "aggregate_first"))
        emitter.begin()
        for op in program:
            if op.kind == "filter":
                _EXPANDED[order_of.get(op.key, "multiply_first"), "matrices" in op.attributes](emitter, op)
            elif not rows_first.takes(op):
                emitter.append(op)
        emitter.end(name)
    return emitter.cycle


def _multiplied_first(emitter: Emitter, op: Operator) -> None:
    x, *weights = op.reads
    hops: Sequence[int] = op.attributes["hops"]
    products = {
        hop: emitter.emit("multiply", x, weight, key=_key(op, "multiply", hop, hops), **_back(op))
        for hop, weight in zip(hops, weights, strict=True)
    }
    level, sum_so_far = _level(emitter, x), products.pop(hops[-1])
    for hop in range(hops[-1] - 1, -1, -1):
        reads = (sum_so_far, products[hop]) if hop in products else (sum_so_far,)
        sum_so_far = emitter.emit(
            "aggregate",
            *reads,
            key=_key(op, "aggregate", hops[-1] - hop, range(1, hops[-1] + 1)),
            writes=op.writes if hop == 0 else (),
            block=f"{_matrix(op)}@{level}",
            **({"base": True} if hop in products else {}),
        )
        level += 1


def _aggregated_first(emitter: Emitter, op: Operator) -> None:
    x, *weights = op.reads
    hops: Sequence[int] = op.attributes["hops"]
    rows, level = {0: x}, _level(emitter, x)
    for hop in range(1, hops[-1] + 1):
        key = _key(op, "aggregate", hop, range(1, hops[-1] + 1))
        rows[hop] = emitter.emit("aggregate", rows[hop - 1], key=key, block=f"{_matrix(op)}@{level + hop - 1}")
    so_far: tuple[str, ...] = ()
    for hop, weight in zip(hops, weights, strict=True):
        so_far = emitter.emit_all(
            "multiply",
            rows[hop],
            weight,
            *so_far,
            key=_key(op, "multiply", hop, hops),
            writes=op.writes if hop == hops[-1] else (),
            **({"base": True} if so_far else {}),
            **_back(op),
        )


def _multiplied_first_each(emitter: Emitter, op: Operator) -> None:
    """Of terms with a matrix each: every product is aggregated by its own, onto the sum of those before."""
    x, *weights = op.reads
    matrices: Sequence[str] = op.attributes["matrices"]
    level, so_far = _level(emitter, x), tuple[str, ...]()
    for number, (matrix, weight) in enumerate(zip(matrices, weights, strict=True)):
        product = emitter.emit("multiply", x, weight, key=_key(op, "multiply", number, matrices), **_back(op))
        if not matrix:
            so_far = (product,)
            continue
        so_far = emitter.emit_all(
            "aggregate",
            product,
            *so_far,
            key=_key(op, "aggregate", number, matrices),
            writes=op.writes if number == len(matrices) - 1 else (),
            block=f"{matrix}@{level}",
            **({"base": True} if so_far else {}),
        )


def _aggregated_first_each(emitter: Emitter, op: Operator) -> None:
    """The same by rows that every matrix has aggregated."""
    x, *weights = op.reads
    matrices: Sequence[str] = op.attributes["matrices"]
    level, so_far = _level(emitter, x), tuple[str, ...]()
    for number, (matrix, weight) in enumerate(zip(matrices, weights, strict=True)):
        key = _key(op, "aggregate", number, matrices)
        rows = emitter.emit("aggregate", x, key=key, block=f"{matrix}@{level}") if matrix else x
        so_far = emitter.emit_all(
            "multiply",
            rows,
            weight,
            *so_far,
            key=_key(op, "multiply", number, matrices),
            writes=op.writes if number == len(matrices) - 1 else (),
            **({"base": True} if so_far else {}),
            **_back(op),
        )


def _matrix(op: Operator) -> str:
    """The name of the blocks that a filter's powers are of."""
    return op.attributes.get("matrix", "A")


def _back(op: Operator) -> dict[str, Any]:
    """What its products have beside, where its weights are [input width, output width]."""
    return {"back": True} if op.attributes.get("back") else {}


def _level(emitter: Emitter, name: str) -> int:
    level = emitter.cycle.spaces[emitter.cycle.values[name].space].level
    assert level is not None, f"{name} has no rows of vertices"
    return level


def _key(op: Operator, what: str, hop: int, hops: Sequence[Any]) -> str:
    """Numbered where there are several."""
    layer = op.key.rpartition("/")[0]
    return f"{layer}/{what}{hop}" if len(hops) > 1 else f"{layer}/{what}"


_EXPANDED: Mapping[tuple[OpOrder, bool], Callable[[Emitter, Operator], None]] = {
    ("multiply_first", False): _multiplied_first,
    ("aggregate_first", False): _aggregated_first,
    ("multiply_first", True): _multiplied_first_each,
    ("aggregate_first", True): _aggregated_first_each,
}
"""By the order, and whether every term has a matrix of its own."""
