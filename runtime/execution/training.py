"""Loss and metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gnnplan.planner.losses import OF_TARGETS
from gnnplan.planner.metrics import usual_metric
from gnnplan.planner.own_code.own_loss import own_loss
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels.loss import distance_and_grad, loss_and_grad, own_loss_and_grad
from gnnplan.profiles.kernels.metrics import scores_of, sums_of
from gnnplan.profiles.kernels.ranks import sums_of_splits
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


def _labels(labels: Tensor, rows: Tensor, *, multilabel: bool) -> Tensor:
    return labels[rows] if multilabel else labels[rows, 0]


@executes("loss")
def _loss(c: Context, op: Operator) -> Execution:
    denominator = op.attributes["denominator"]
    rows = c.rows(op.attributes["index"]) if "index" in op.attributes else None
    right = c.right_labels(op)
    compute = _loss_of(op)

    def run(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if not right:
            all_or_some = labels if rows is None else _labels(labels, rows, multilabel=op.attributes["multilabel"])
            right.append(all_or_some)
        loss, grad = compute(logits, rows, right[0], denominator)
        return loss.reshape(1, 1), grad

    return run


def _loss_of(op: Operator) -> Callable[[Tensor, Tensor | None, Tensor, int], tuple[Tensor, Tensor]]:
    """What computes the loss that an operator names, and its gradient."""
    name = op.attributes.get("loss")
    if name is None:
        return loss_and_grad
    if name in OF_TARGETS:
        return partial(distance_and_grad, is_squared=name == "mse")
    return partial(own_loss_and_grad, of_rows=own_loss(name, op.attributes["sha256"]))


@executes("hits")
def _hits(c: Context, op: Operator) -> Execution:
    indexes, multilabel = [c.rows(name) for name in op.attributes["indexes"]], op.attributes["multilabel"]
    metric = op.attributes.get("metric") or usual_metric("", multilabel)

    def run(logits: Tensor, labels: Tensor) -> Tensor:
        of_rows = [(logits[rows], _labels(labels, rows, multilabel=multilabel)) for rows in indexes]
        return torch.stack([sums_of(metric, *each) for each in of_rows])

    return run


@executes("ranks")
def _ranks(c: Context, op: Operator) -> Execution:
    pairs, metric = c.edges(op.attributes["block"]), op.attributes["metric"]
    return lambda scores, told: sums_of_splits(metric, scores, pairs.target, told)


@executes("scores")
def _scores(c: Context, op: Operator) -> Execution:
    indexes, multilabel = [c.rows(name) for name in op.attributes["indexes"]], op.attributes["multilabel"]
    ids = c.ids_on_device(c.cycle.values[op.reads[0]].space)

    def run(logits: Tensor, labels: Tensor) -> Tensor:
        out = logits.new_zeros(op.attributes["num_nodes"], 2 * logits.shape[1] + len(indexes))
        for number, rows in enumerate(indexes):
            own, width = ids[rows], logits.shape[1]
            score, label = scores_of(logits[rows], _labels(labels, rows, multilabel=multilabel))
            out[own, :width], out[own, width : 2 * width], out[own, 2 * width + number] = score, label, 1.0
        return out

    return run
