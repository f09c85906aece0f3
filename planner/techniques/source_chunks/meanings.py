"""What the kinds of moving aggregates mean on one worker, in plain torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.meanings import meaning
from gnnplan.planner.techniques.source_chunks.kinds import EMPTY

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


@meaning("fold")
def _fold(c: Context, op: Operator, fresh: Tensor, state: Tensor, *base: Tensor) -> tuple[Tensor, Tensor]:
    moved = fresh + c.matrix(op.attributes["block"]).diagonal()[:, None] * state
    out = moved + base[0] if base else moved.clone()
    return (fresh.copy_(out) if op.inplace is not None else out), moved


@meaning("fold_following")
def _fold_following(
    c: Context, op: Operator, fresh: Tensor, state: Tensor, mean: Tensor, last: Tensor, *base: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    (sums,) = op.attributes["blocks"]
    followed = state + c.matrix(sums).diagonal()[:, None] * (mean - last)
    return (*_fold(c, op, fresh, followed, *base), mean.clone())


@meaning("follow")
def _follow(c: Context, op: Operator, state: Tensor, mean: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    return state + c.matrix(op.attributes["block"]).diagonal()[:, None] * (mean - last), mean.clone()


@meaning("mass_left")
def _mass_left(c: Context, op: Operator, mass: Tensor) -> Tensor:
    left = c.matrix(op.attributes["block"]).diagonal()[:, None]
    return torch.where((mass == 0) | (left == 0), EMPTY, mass + left.log())


@meaning("log_sum")
def _log_sum(c: Context, op: Operator, *scores: Tensor) -> Tensor:
    rows = torch.cat([c.edges(block)[0] for block in op.attributes["blocks"]])
    score = torch.cat(scores)
    num_rows = c.num_rows(c.cycle.blocks[op.attributes["onto"]].row)
    index = rows[:, None].expand_as(score)
    top = score.new_full((num_rows, score.shape[1]), -torch.inf).scatter_reduce_(0, index, score, "amax")
    total = score.new_zeros(num_rows, score.shape[1]).index_add_(0, rows, (score - top[rows]).exp())
    found = top + total.log()
    return torch.where(found == 0, -1 / EMPTY, found)


@meaning("log_sum_grad")
def _log_sum_grad(c: Context, op: Operator, grad: Tensor, *both: Tensor) -> tuple[Tensor, ...]:
    *scores, mass = both
    rows = [c.edges(block)[0] for block in op.attributes["blocks"]]
    return tuple((score - mass[at]).exp() * grad[at] for score, at in zip(scores, rows, strict=True))


@meaning("scale_mass")
def _scale_mass(c: Context, op: Operator, mass: Tensor) -> Tensor:
    _, scale = op.attributes["blocks"]
    found = mass + c.matrix(scale).diagonal()[:, None].log()
    return torch.where(found == 0, -1 / EMPTY, found)


@meaning("keep")
def _keep(c: Context, op: Operator, x: Tensor, cell: Tensor) -> Tensor:
    return cell.copy_(x)
