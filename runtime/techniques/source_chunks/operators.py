"""How the kinds of moving aggregates are executed."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels import edge_loops, pool
from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes

EMPTY = -1e30
"""The logarithm of no mass, as `gnnplan.planner.techniques.source_chunks.kinds` has it."""


@executes("fold")
def _fold(c: Context, op: Operator) -> Execution:
    left = c.diagonal(op.attributes["block"])

    def run(fresh: Tensor, state: Tensor, *base: Tensor) -> tuple[Tensor, Tensor]:
        torch.addcmul(fresh, left, state, out=state)
        out = fresh if op.inplace == 0 else pool.empty_like(fresh)
        return (torch.add(state, base[0], out=out) if base else out.copy_(state)), state

    return run


@executes("fold_following")
def _fold_following(c: Context, op: Operator) -> Execution:
    (name,) = op.attributes["blocks"]
    sums, fold = c.diagonal(name), _fold(c, op)

    def run(fresh: Tensor, state: Tensor, mean: Tensor, last: Tensor, *base: Tensor) -> tuple[Tensor, ...]:
        state.addcmul_(sums, torch.sub(mean, last))
        return (*fold(fresh, state, *base), last.copy_(mean))

    return run


@executes("follow")
def _follow(c: Context, op: Operator) -> Execution:
    times = c.diagonal(op.attributes["block"])

    def run(state: Tensor, mean: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        followed = torch.addcmul(state, times, torch.sub(mean, last), out=pool.empty_like(state))
        return followed, last.copy_(mean)

    return run


@executes("mass_left")
def _mass_left(c: Context, op: Operator) -> Execution:
    left = c.diagonal(op.attributes["block"])

    def run(mass: Tensor) -> Tensor:
        out = torch.add(mass, left.log(), out=pool.empty_like(mass))
        return out.masked_fill_((mass == 0) | (left == 0), EMPTY)

    return run


@executes("log_sum")
def _log_sum(c: Context, op: Operator) -> Execution:
    blocks = [c.edges(name) for name in op.attributes["blocks"]]
    rows, heads = c.num_rows(c.cycle.blocks[op.attributes["onto"]].row), op.attributes["heads"]

    def run(*scores: Tensor) -> Tensor:
        top = pool.empty(c.device, rows, heads).fill_(-torch.inf)
        out = pool.empty(c.device, rows, heads).zero_()
        for edges, score in zip(blocks, scores, strict=True):
            _raise(top, edges, score)
        for edges, score in zip(blocks, scores, strict=True):
            _add_exponentials(out, edges, score, top)
        return out.log_().add_(top).masked_fill_(out == 0, -1 / EMPTY)

    return run


def _raise(top: Tensor, edges: EdgeBlock, score: Tensor) -> None:
    """The greatest score of every target, in place."""
    if top.device.type == "cpu":
        edge_loops.tops(edges.indptr.numpy(), score.numpy(), top.numpy())
    else:
        top.scatter_reduce_(0, edges.target[:, None].expand_as(score), score, "amax")


def _add_exponentials(total: Tensor, edges: EdgeBlock, score: Tensor, top: Tensor) -> None:
    """Exponentials of scores over the greatest, added up at their targets, in place."""
    weight = pool.empty_like(score)
    if top.device.type == "cpu":
        arrays = (each.numpy() for each in (edges.indptr, score, top, weight, total))
        edge_loops.exponentials(*arrays)
    else:
        total.index_add_(0, edges.target, torch.sub(score, top[edges.target], out=weight).exp_())


@executes("log_sum_grad")
def _log_sum_grad(c: Context, op: Operator) -> Execution:
    blocks = [c.edges(name) for name in op.attributes["blocks"]]

    def run(grad: Tensor, *both: Tensor) -> tuple[Tensor, ...]:
        *scores, mass = both
        return tuple(_grad_at(edges, grad, score, mass) for edges, score in zip(blocks, scores, strict=True))

    return run


def _grad_at(edges: EdgeBlock, grad: Tensor, score: Tensor, mass: Tensor) -> Tensor:
    """exp(score - mass) times the gradient at every edge's target."""
    out = torch.index_select(mass, 0, edges.target, out=pool.empty_like(score))
    torch.sub(score, out, out=out).exp_()
    return out.mul_(grad[edges.target])


@executes("scale_mass")
def _scale_mass(c: Context, op: Operator) -> Execution:
    _, scale = op.attributes["blocks"]
    scales = c.diagonal(scale)

    def run(mass: Tensor) -> Tensor:
        out = torch.add(mass, scales.log(), out=pool.empty_like(mass))
        return out.masked_fill_(out == 0, -1 / EMPTY)

    return run


@executes("keep")
def _keep(c: Context, op: Operator) -> Execution:
    return lambda x, cell: cell.copy_(x)
