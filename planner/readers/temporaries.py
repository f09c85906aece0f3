"""Bytes that an operator needs beside what it reads and writes, by kind: what `gnnplan.runtime.execution` makes."""

from __future__ import annotations

from collections.abc import Callable

from gnnplan.planner.losses import is_own
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.reduce import rows_of_loss
from gnnplan.planner.program.parts import ITEM_BYTES, Operator
from gnnplan.profiles.kernels.activation import rows_at_once
from gnnplan.profiles.kernels.halves import NARROW

Temporaries = Callable[[Cycle, Operator, int, bool], list[int]]
_FLOAT_BYTES, _LONG_BYTES = 4, 8


def temporary_bytes(cycle: Cycle, op: Operator, worker: int, *, on_cuda: bool) -> list[int]:
    """Bytes of each tensor that an operator makes and drops, all of them at once."""
    of_kind = TEMPORARIES.get(op.kind)
    return of_kind(cycle, op, worker, on_cuda) if of_kind else []


def _matrix(cycle: Cycle, name: str, worker: int) -> int:
    return cycle.num_rows(name, worker) * cycle.values[name].num_columns(worker) * _FLOAT_BYTES


def _multiply(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """A sparse product reads its weight [input width, output width]."""
    is_turned = cycle.values[op.reads[0]].layout == "csr" and not op.attributes.get("back")
    return [_matrix(cycle, op.reads[1], worker)] if is_turned else []


def _gram(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """A product with sparse rows is made [their width, the other one]; one of halves is rounded to a half first."""
    x, made = cycle.values[op.reads[1]], _matrix(cycle, op.writes[0], worker)
    if x.layout == "csr":
        return [made]
    return [made * ITEM_BYTES[x.dtype] // _FLOAT_BYTES] if x.dtype != "float32" else []


def _aggregate(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """A sum of narrow halves is made in float32."""
    x = cycle.values[op.reads[0]]
    if x.dtype != "bfloat16" or x.num_columns(worker) >= NARROW:
        return []
    return [_matrix(cycle, op.reads[0], worker), _matrix(cycle, op.writes[0], worker)]


def _loss(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """The training rows' logits, and for classes their logarithms beside them.

    Of label sets CUDA makes two matrices more, which are gone before the gradient is made. A loss of one's own is
    taken to make three beside the logits: what it computes, what autograd keeps, and the gradient.
    """
    rows = rows_of_loss(cycle, op)[worker]
    if "index" not in op.attributes:  # the copy of all rows becomes the gradient
        return [2 * rows * _FLOAT_BYTES] if on_cuda else []
    chosen, named = rows * cycle.values[op.reads[0]].width * _FLOAT_BYTES, op.attributes.get("loss", "")
    if is_own(named):
        return [chosen] * 4
    if named:
        return [chosen]
    if not op.attributes["multilabel"]:
        return [chosen, chosen]
    return [chosen, max(0, 2 * chosen - _matrix(cycle, op.writes[1], worker))] if on_cuda else [chosen]


def _step(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """A clipped gradient is a copy; torch's own classes make two matrices more of one parameter at a time."""
    sizes = [_matrix(cycle, name, worker) for name in op.attributes["parameters"]]
    is_clipped = op.attributes.keys() & {"clip_norm", "clip_value"}
    is_plain = op.attributes.get("optimizer") in ("adam", "adamw", "sgd") and "arguments" not in op.attributes
    return [*(sizes if is_clipped else []), *([] if is_plain else [max(sizes, default=0)] * 2)]


def _activate(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """On CUDA dropout's hashes are two int64 tensors, of some rows at a time."""
    return _hashes(cycle, op, worker) if on_cuda and op.attributes["dropout"] else []


def _dropout(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """The same; of sparse rows, by rows and by columns, every stored entry's hash, and where it stands."""
    if not on_cuda:
        return []
    value = cycle.values[op.writes[0]]
    if value.layout == "dense":
        return _hashes(cycle, op, worker)
    entries = cycle.num_elements(op.writes[0], worker)
    return [*[entries * _LONG_BYTES] * 4, entries * _FLOAT_BYTES, value.width * _LONG_BYTES]


def _hashes(cycle: Cycle, op: Operator, worker: int) -> list[int]:
    width = max(1, cycle.values[op.writes[0]].num_columns(worker))
    rows = min(cycle.num_rows(op.writes[0], worker), rows_at_once(width))
    return [rows * width * _LONG_BYTES] * 2


def _softmax(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """Of every target the greatest score and the sum; on CUDA also a row of every edge."""
    block = cycle.blocks[op.attributes["blocks"][0]]
    rows = cycle.spaces[block.row].sizes[worker] * op.attributes["heads"] * _FLOAT_BYTES
    edges = max(cycle.blocks[name].num_edges[worker] for name in op.attributes["blocks"])
    beside = [edges * op.attributes["heads"] * _FLOAT_BYTES] if on_cuda else []
    return [rows, rows, *beside] if op.kind == "softmax" else [rows, *beside]


def _over_edges(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """On CUDA torch's operators make rows of every edge: forward of one end, backward of both."""
    if not on_cuda:
        return []
    edges = cycle.blocks[op.attributes["block"]].num_edges[worker]
    width = cycle.values[op.reads[1]].num_columns(worker)
    num_rows = 2 if op.kind in ("score_grad", "weigh_grad", "pair_score") else 1
    return [edges * width * _FLOAT_BYTES] * num_rows


def _publish(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """On CUDA its own rows are gathered before they are copied to the host."""
    own = cycle.spaces[cycle.indexes[op.attributes["index"]].target].sizes[worker]
    return [own * cycle.values[op.reads[0]].num_columns(worker) * _FLOAT_BYTES] if on_cuda else []


def _train_batch(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """As it was measured."""
    return [op.attributes["step_bytes"][worker]]


TEMPORARIES: dict[str, Temporaries] = {
    "train_batch": _train_batch,
    "multiply": _multiply,
    "gram": _gram,
    "aggregate": _aggregate,
    "loss": _loss,
    "step": _step,
    "activate": _activate,
    "dropout": _dropout,
    "publish": _publish,
    "softmax": _softmax,
    "softmax_grad": _softmax,
    "score": _over_edges,
    "score_grad": _over_edges,
    "weigh": _over_edges,
    "weigh_grad": _over_edges,
    "pair_score": _over_edges,
}
