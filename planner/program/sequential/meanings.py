"""What every kind of operator means, on one worker, in plain torch.

A meaning takes the context, the operator and what it reads on one worker, and returns what it writes. Those of
collectives take what all workers read, and return what each of them writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.losses import is_own, usual_loss
from gnnplan.planner.metrics import usual_metric
from gnnplan.planner.own_code.own_loss import own_loss
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.kinds.sparse import made_rows
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.profiles.kernels.edge_block import NEGATIVE_SLOPE
from gnnplan.profiles.kernels.metrics import scores_of, sums_of
from gnnplan.profiles.kernels.ranks import sums_of_splits

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context

Meaning = Callable[..., Any]
MEANINGS: dict[str, Meaning] = {}
COLLECTIVES: dict[str, Meaning] = {}


def meaning(kind: str, table: dict[str, Meaning] = MEANINGS) -> Callable[[Meaning], Meaning]:
    """Registers the meaning of a kind."""

    def put(function: Meaning) -> Meaning:
        assert kind not in table, kind
        table[kind] = function
        return function

    return put


def meaning_of(kind: str) -> Meaning:
    """What a kind means: of a collective, on all workers. A technique's own kinds are imported here."""
    table = COLLECTIVES if KINDS[kind].collective else MEANINGS
    if kind not in table and KINDS[kind].meant_in:
        import_module(KINDS[kind].meant_in)
    return table[kind]


def plus(op: Operator, result: Tensor, base: tuple[Tensor, ...]) -> Tensor:
    """The result with its operator's base added to it, if there is one."""
    if not base:
        return result
    return base[0].add_(result) if op.inplace is not None else base[0] + result


@meaning("multiply")
def _multiply(c: Context, op: Operator, x: Tensor, weight: Tensor, *base: Tensor) -> Tensor:
    product = x @ (weight if op.attributes.get("back") else weight.t())
    return plus(op, product, base)


@meaning("gram")
def _gram(c: Context, op: Operator, x: Tensor, y: Tensor) -> Tensor:
    return (y.t() @ x).t() if y.layout == torch.sparse_csr else x.t() @ y


@meaning("column_sum")
def _column_sum(c: Context, op: Operator, grad: Tensor) -> Tensor:
    return grad.sum(0, keepdim=True)


def _kept(c: Context, op: Operator, x: Tensor, probability: float) -> Tensor:
    """What dropout keeps of [rows, width], over 1 - probability."""
    value = c.cycle.values[op.reads[0]]
    start, stop = value.columns[c.worker] if value.columns else (0, value.width)
    key = dropout_key(c.cycle.seed, c.epoch, op.attributes["layer"])
    ids = torch.from_numpy(c.ids(value.space))[:, None]
    return keep_mask(key, ids, torch.arange(start, stop), value.width, probability).to(x.dtype) / (1 - probability)


@meaning("activate")
def _activate(c: Context, op: Operator, z: Tensor, bias: Tensor) -> Tensor:
    out = z + bias
    if op.attributes["relu"]:
        out = out.relu()
    if op.attributes["dropout"]:
        out = out * _kept(c, op, z, op.attributes["dropout"])
    return z.copy_(out) if op.inplace is not None else out


@meaning("activate_grad")
def _activate_grad(c: Context, op: Operator, grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    result = grad * (out > 0) / (1 - op.attributes["dropout"])
    if op.inplace is not None:
        result = grad.copy_(result)
    return result, result.sum(0, keepdim=True)


@meaning("dropout")
def _dropout(c: Context, op: Operator, x: Tensor) -> Tensor:
    if x.layout == torch.sparse_csr:
        dense = x.to_dense()
        return (dense * _kept(c, op, dense, op.attributes["probability"])).to_sparse_csr()
    return x * _kept(c, op, x, op.attributes["probability"])


@meaning("add")
def _add(c: Context, op: Operator, x: Tensor, y: Tensor) -> Tensor:
    first, second = op.attributes["factors"]
    out = first * x + second * y
    return out if op.inplace is None else (x, y)[op.inplace].copy_(out)


@meaning("scale")
def _scale(c: Context, op: Operator, x: Tensor) -> Tensor:
    out = x * op.attributes["factor"]
    return out if op.inplace is None else x.copy_(out)


@meaning("average_heads")
def _average_heads(c: Context, op: Operator, x: Tensor) -> Tensor:
    return _by_head(x, op).mean(1)


@meaning("spread_heads")
def _spread_heads(c: Context, op: Operator, x: Tensor) -> Tensor:
    heads = op.attributes["heads"]
    return (x / heads).repeat(1, heads)


@meaning("aggregate")
def _aggregate(c: Context, op: Operator, x: Tensor, *base: Tensor) -> Tensor:
    matrix = c.matrix(op.attributes["block"])
    if op.attributes.get("back"):
        matrix = matrix.t()
    if x.layout == torch.sparse_csr:
        return sum((each.to_dense() for each in base), matrix @ x.to_dense()).to_sparse_csr()
    return plus(op, matrix @ x, base)


def _by_head(x: Tensor, op: Operator) -> Tensor:
    heads = op.attributes["heads"]
    return x.view(len(x), heads, x.shape[1] // heads)  # -1 would be ambiguous where there are no rows


@meaning("dot")
def _dot(c: Context, op: Operator, x: Tensor, vector: Tensor) -> Tensor:
    return (_by_head(x, op) * vector.view(1, op.attributes["heads"], -1)).sum(2)


@meaning("dot_grad")
def _dot_grad(c: Context, op: Operator, grad: Tensor, vector: Tensor, *base: Tensor) -> Tensor:
    product = grad[:, :, None] * vector.view(1, op.attributes["heads"], -1)
    return plus(op, product.flatten(1), base)


@meaning("dot_gram")
def _dot_gram(c: Context, op: Operator, grad: Tensor, x: Tensor, vector: Tensor) -> Tensor:
    return (grad[:, :, None] * _by_head(x, op)).sum(0).view_as(vector)


@meaning("score")
def _score(c: Context, op: Operator, source: Tensor, target: Tensor) -> Tensor:
    rows, columns = c.edges(op.attributes["block"])
    return functional.leaky_relu(source[columns] + target[rows], NEGATIVE_SLOPE)


@meaning("score_grad")
def _score_grad(c: Context, op: Operator, grad: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = c.edges(op.attributes["block"])
    grad = torch.where(source[columns] + target[rows] > 0, grad, NEGATIVE_SLOPE * grad)  # at zero as torch has it
    to_source, to_target = torch.zeros_like(source), torch.zeros_like(target)
    return to_source.index_add_(0, columns, grad), to_target.index_add_(0, rows, grad)


def _together(c: Context, op: Operator) -> tuple[Tensor, list[int], int]:
    """Targets of the edges of all blocks, how many edges each has, and the number of targets."""
    rows = [c.edges(block)[0] for block in op.attributes["blocks"]]
    space = c.cycle.blocks[op.attributes["blocks"][0]].row
    return torch.cat(rows), [len(each) for each in rows], c.num_rows(space)


@meaning("softmax")
def _softmax(c: Context, op: Operator, *scores: Tensor) -> tuple[Tensor, ...]:
    rows, lengths, num_rows = _together(c, op)
    score = torch.cat(scores)
    index = rows[:, None].expand_as(score)
    top = score.new_full((num_rows, score.shape[1]), -torch.inf).scatter_reduce_(0, index, score, "amax")
    weight = (score - top[rows]).exp()
    total = score.new_zeros(num_rows, score.shape[1]).index_add_(0, rows, weight)
    return tuple(part.clone() for part in (weight / total[rows]).split(lengths))


@meaning("softmax_grad")
def _softmax_grad(c: Context, op: Operator, *both: Tensor) -> tuple[Tensor, ...]:
    rows, lengths, num_rows = _together(c, op)
    half = len(both) // 2
    grad, alpha = torch.cat(both[:half]), torch.cat(both[half:])
    mean = grad.new_zeros(num_rows, grad.shape[1]).index_add_(0, rows, grad * alpha)
    return tuple(part.clone() for part in (alpha * (grad - mean[rows])).split(lengths))


@meaning("weigh")
def _weigh(c: Context, op: Operator, alpha: Tensor, x: Tensor, *base: Tensor) -> Tensor:
    rows, columns = c.edges(op.attributes["block"])
    if op.attributes.get("back"):
        rows, columns = columns, rows
    h = _by_head(x, op)
    out = h.new_zeros(c.num_rows(made_rows(c.cycle, op)), *h.shape[1:])
    out.index_add_(0, rows, alpha[:, :, None] * h[columns])
    return plus(op, out.flatten(1), base)


@meaning("pair_score")
def _pair_score(c: Context, op: Operator, heads: Tensor, tails: Tensor) -> Tensor:
    rows, columns = c.edges(op.attributes["block"])
    return (heads[rows] * tails[columns]).sum(1, keepdim=True)


@meaning("weigh_grad")
def _weigh_grad(c: Context, op: Operator, grad: Tensor, x: Tensor) -> Tensor:
    rows, columns = c.edges(op.attributes["block"])
    return (_by_head(grad, op)[rows] * _by_head(x, op)[columns]).sum(2)


@meaning("ranks")
def _ranks(c: Context, op: Operator, scores: Tensor, told: Tensor) -> Tensor:
    heads, _ = c.edges(op.attributes["block"])
    return sums_of_splits(op.attributes["metric"], scores, heads, told).to(scores)


@meaning("take")
def _take(c: Context, op: Operator, x: Tensor) -> Tensor:
    rows = c.rows(op.attributes["index"])
    if c.cycle.indexes[op.attributes["index"]].is_view:
        start = int(rows[0]) if len(rows) else 0
        return x[start : start + len(rows)]
    if x.layout == torch.sparse_csr:
        return x.to_dense()[rows].to_sparse_csr()
    return x[rows]


@meaning("scatter_add")
def _scatter_add(c: Context, op: Operator, x: Tensor, *base: Tensor) -> Tensor:
    index = op.attributes["index"]
    out = x.new_zeros(c.num_rows(c.cycle.indexes[index].source), x.shape[1])
    return plus(op, out.index_add_(0, c.rows(index), x), base)


@meaning("put")
def _put(c: Context, op: Operator, x: Tensor, *base: Tensor) -> Tensor:
    """Rows that nobody puts are no numbers, so that who reads them is noticed."""
    if not base:
        out = x.new_full((c.num_rows(c.cycle.indexes[op.attributes["index"]].source), x.shape[1]), math.nan)
    else:
        out = base[0] if op.inplace is not None else base[0].clone()
    out[torch.as_tensor(c.rows(op.attributes["index"]))] = x
    return out


@meaning("place")
def _place(c: Context, op: Operator, *parts: Tensor) -> Tensor:
    if parts[0].layout == torch.sparse_csr:
        return torch.cat([part.to_dense() for part in parts]).to_sparse_csr()
    return torch.cat(parts)


@meaning("loss")
def _loss(c: Context, op: Operator, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    denominator, grad = op.attributes["denominator"], torch.zeros_like(logits)
    rows = c.rows(op.attributes["index"]) if "index" in op.attributes else torch.arange(len(logits))
    name = op.attributes.get("loss") or usual_loss(op.attributes["multilabel"])
    right = labels[rows] if op.attributes["multilabel"] else labels[rows, 0]
    loss, grad_chosen = (_own_loss if is_own(name) else _LOSSES[name])(op, logits[rows], right)
    grad[rows] = grad_chosen / denominator
    return (loss / denominator).reshape(1, 1), grad


def _cross_entropy(op: Operator, chosen: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    grad = chosen.softmax(1) - functional.one_hot(right, chosen.shape[1])
    return functional.cross_entropy(chosen, right, reduction="sum"), grad


def _bce(op: Operator, chosen: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    loss = functional.binary_cross_entropy_with_logits(chosen, right.to(chosen), reduction="sum")
    return loss, chosen.sigmoid() - right


def _own_loss(op: Operator, chosen: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    if not len(chosen):
        return chosen.sum(), chosen
    with torch.enable_grad():
        leaf = chosen.detach().requires_grad_()
        right = right.to(leaf) if right.is_floating_point() else right
        loss = own_loss(op.attributes["loss"], op.attributes["sha256"])(leaf, right).sum()
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]


_LOSSES: dict[str, Callable[[Operator, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "cross_entropy": _cross_entropy,
    "bce": _bce,
    "mse": lambda op, chosen, right: ((chosen - right).square().sum(), 2 * (chosen - right)),
    "l1": lambda op, chosen, right: ((chosen - right).abs().sum(), (chosen - right).sign()),
}


@meaning("hits")
def _hits(c: Context, op: Operator, logits: Tensor, labels: Tensor) -> Tensor:
    metric = op.attributes.get("metric") or usual_metric("", op.attributes["multilabel"])
    return torch.stack([sums_of(metric, *each) for each in _of_indexes(c, op, logits, labels)]).to(logits)


@meaning("scores")
def _scores(c: Context, op: Operator, logits: Tensor, labels: Tensor) -> Tensor:
    out = logits.new_zeros(op.attributes["num_nodes"], 2 * logits.shape[1] + 3)
    ids = as_tensor(c.ids(c.cycle.values[op.reads[0]].space))
    for number, (name, each) in enumerate(zip(op.attributes["indexes"], _of_indexes(c, op, logits, labels))):
        own = ids[c.rows(name)]
        out[own, :-3] = torch.cat(scores_of(*each), 1)
        out[own, number - 3] = 1
    return out


def _of_indexes(c: Context, op: Operator, logits: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    rows = [c.rows(name) for name in op.attributes["indexes"]]
    return [(logits[own], labels[own] if op.attributes["multilabel"] else labels[own, 0]) for own in rows]


@meaning("flatten")
def _flatten(c: Context, op: Operator, *parts: Tensor) -> Tensor:
    return torch.cat([part.reshape(1, -1) for part in parts], 1)


@meaning("unflatten")
def _unflatten(c: Context, op: Operator, flat: Tensor) -> tuple[Tensor, ...]:
    shapes = [(c.cycle.num_rows(name, c.worker), c.cycle.values[name].width) for name in op.attributes["like"]]
    parts = flat[0].split([rows * width for rows, width in shapes])
    return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))


@meaning("exchange", COLLECTIVES)
def _exchange(c: Context, op: Operator, sent: list[Tensor]) -> list[Tensor]:
    counts = c.cycle.routes[op.attributes["route"]].sent(back=op.attributes.get("back", False))
    dense = [x.to_dense() if x.layout == torch.sparse_csr else x for x in sent]
    parts = [x.split(counts[p].tolist()) for p, x in enumerate(dense)]
    # Workers that exchange nothing may have other columns.
    received = [torch.cat([part[q] for part in parts if len(part[q])] or [parts[q][q]]) for q in c.cycle.workers]
    return [x.to_sparse_csr() for x in received] if sent[0].layout == torch.sparse_csr else received


@meaning("publish")
def _publish(c: Context, op: Operator, x: Tensor, *received: Tensor) -> Tensor:
    return torch.cat([x[c.rows(op.attributes["index"])], *received])


@meaning("host_barrier", COLLECTIVES)
def _host_barrier(c: Context, op: Operator, written: list[Tensor]) -> list[Tensor]:
    hosts = op.attributes["host_of"]
    return [torch.cat([x for x, its in zip(written, hosts, strict=True) if its == host]) for host in hosts]


@meaning("find")
def _find(c: Context, op: Operator, region: Tensor) -> Tensor:
    return region[c.rows(op.attributes["index"])]


@meaning("all_reduce", COLLECTIVES)
def _all_reduce(c: Context, op: Operator, each: list[Tensor]) -> list[Tensor]:
    total = torch.stack(each).sum(0)
    return [x.copy_(total) if op.inplace is not None else total.clone() for x in each]


def as_tensor(ids: np.ndarray) -> Tensor:
    """int64 rows as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))
