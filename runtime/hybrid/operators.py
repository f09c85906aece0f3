"""Gathers over own rows, replicas and fetched rows, as autograd functions timed under their task keys.

Gradients of fetched rows go back to their owners. Those of replicas go on here, down to the weights: a replica's
part of the loss's gradient is this worker's part, and the sum over the workers is the whole.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnplan.planner.steps import Step
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.profiles.kernels.sparse import spmm_add_
from gnnplan.runtime.hybrid.blocks import LevelBlock, LevelEdges


def spmm_into_(out: Tensor, matrix: Tensor, dense: Tensor) -> Tensor:
    """`out = matrix @ dense`, whatever `out` holds, which may be rows of a larger tensor."""
    if matrix._nnz() == 0:
        return out.zero_()
    return torch.addmm(out, matrix, dense, beta=0, out=out)


class GatherLevel(torch.autograd.Function):
    """`A @ x` for own rows and the next level's replicas, plus `base` where given; with `keep` rows are passed on."""

    @staticmethod
    def forward(ctx, step: Step, block: LevelBlock, x: Tensor, base: Tensor | None):
        """x [n + r, width] -> [n + s, width], and with `keep` rows [n + k, width] of x and of what was fetched."""
        ctx.step, ctx.block, ctx.num_base = step, block, 0 if base is None else len(base)
        exchanger, n = block.exchanger, block.exchanger.num_local
        halo = exchanger.fetch(x, step.name)
        with exchanger.recorder.span(f"{step.name}/forward"):
            out = pool.empty(x.device, n + block.made.forward.shape[0], x.shape[1])
            spmm_into_(out[:n], block.own.forward, x[:n])
            spmm_add_(out[:n], block.near.forward, x[n:])
            if len(out) > n:
                spmm_into_(out[n:], block.made.forward, x)
            spmm_add_(out, block.far.forward, halo)
            if base is not None:
                assert len(out) == n, "rows with a base are own ones alone"
                out += base[:n]
            return (out, _pass_on(block, x, halo)) if step.keep else out

    @staticmethod
    def backward(ctx, grad: Tensor, grad_kept: Tensor | None = None):
        """Transposed: own rows and replicas here, fetched rows to their owners."""
        step, block, exchanger = ctx.step, ctx.block, ctx.block.exchanger
        n = exchanger.num_local
        if not ctx.needs_input_grad[2]:
            return None, None, None, _below_zeros(grad, ctx.num_base) if step.base else None
        with exchanger.recorder.span(f"{step.name}/backward"):
            grad_base = _below_zeros(grad, ctx.num_base) if step.base else None
            grad_x = pool.empty(grad.device, n + block.near.forward.shape[1], grad.shape[1])
            spmm_into_(grad_x[:n], block.own.backward, grad[:n])
            if len(grad_x) > n:
                spmm_into_(grad_x[n:], block.near.backward, grad[:n])
            spmm_add_(grad_x, block.made.backward, grad[n:])
            grad_halo = pool.empty(grad.device, exchanger.num_halo, grad.shape[1])
            spmm_into_(grad_halo, block.far.backward, grad)
            if grad_kept is not None:
                _take_back(block, grad_kept, grad_x, grad_halo)
        exchanger.give_back_(grad_halo, grad_x, step.name)
        return None, None, grad_x, grad_base


def _pass_on(block: LevelBlock, x: Tensor, halo: Tensor) -> Tensor:
    """Own rows, and the rows of a later level's replicas, wherever they are."""
    n = block.exchanger.num_local
    if block.kept is None:
        return x[:n]
    kept = pool.empty(x.device, n + block.kept.here.forward.shape[0], x.shape[1])
    kept[:n].copy_(x[:n])
    spmm_into_(kept[n:], block.kept.here.forward, x)
    spmm_add_(kept[n:], block.kept.far.forward, halo)
    return kept


def _take_back(block: LevelBlock, grad_kept: Tensor, grad_x: Tensor, grad_halo: Tensor) -> None:
    """Adds the gradients of rows that were passed on to where they came from."""
    n = block.exchanger.num_local
    grad_x[:n] += grad_kept[:n]
    if block.kept is not None:
        spmm_add_(grad_x, block.kept.here.backward, grad_kept[n:])
        spmm_add_(grad_halo, block.kept.far.backward, grad_kept[n:])


def _below_zeros(grad: Tensor, num_rows: int) -> Tensor:
    """`grad` [n, width] and zeros below it, a new tensor [num_rows, width]."""
    out = pool.empty(grad.device, num_rows, grad.shape[1])
    out[: len(grad)].copy_(grad)
    out[len(grad) :].zero_()
    return out


class ExchangeLevel(torch.autograd.Function):
    """`p` [n + r, width] -> [n + r + c, width] in the order of an attention's sources; gradients as `GatherLevel`."""

    @staticmethod
    def forward(ctx, p: Tensor, block: LevelEdges, name: str) -> Tensor:
        """Receives the rows that are not made here, and puts all where the edges have them."""
        ctx.block, ctx.name, n = block, name, block.num_local
        halo = block.exchanger.fetch(p, name)
        with block.exchanger.recorder.span(f"{name}/forward"):
            q = pool.empty(p.device, len(p) + len(halo), p.shape[1])
            q[:n].copy_(p[:n])
            q.index_copy_(0, block.here, p[n:])
            return q.index_copy_(0, block.fetched, halo)

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Own rows and replicas here, fetched rows to their owners."""
        block, name, n = ctx.block, ctx.name, ctx.block.num_local
        with block.exchanger.recorder.span(f"{name}/backward"):
            grad_p = pool.empty(grad.device, n + len(block.here), grad.shape[1])
            grad_p[:n].copy_(grad[:n])
            torch.index_select(grad, 0, block.here, out=grad_p[n:])
            grad_halo = gather_rows(grad, block.fetched)
        return block.exchanger.give_back_(grad_halo, grad_p, name), None, None
