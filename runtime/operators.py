"""The program's operators as autograd functions, each timed under its task key.

Shapes: n local rows, h halo rows. Every backward is written out, so that one operator is one task
and gradients that meet at a value are added inside the operator that makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnplan.planner.steps import Step
from gnnplan.profiles.kernels.activation import activate_, activate_backward_
from gnnplan.profiles.kernels.attend import Scores, attend_backward, attend_forward
from gnnplan.profiles.kernels.attention import EdgeBlock
from gnnplan.profiles.kernels.dense import matmul, transposed
from gnnplan.profiles.kernels.sparse import spmm, spmm_add_
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.recorder import Recorder


@dataclass(frozen=True)
class Block:
    """A worker's rows of the aggregation matrix, with transposes for the backward pass.

    Args:
        local: CSR [n, n]; remote: CSR [n, h]; `_t` their transposes.
        overlap: local rows are aggregated while halo rows travel.
    """

    local: Tensor
    local_t: Tensor
    remote: Tensor
    remote_t: Tensor
    exchanger: HaloExchanger
    overlap: bool = False

    def splits(self, name: str) -> bool:
        """Whether an aggregation is in two parts, the local one beside its exchange."""
        return self.overlap and self.exchanger.lets_overlap(name)


@dataclass(frozen=True)
class SparseInput:
    """Input features as CSR [n, F], with the transpose that the weight gradient needs."""

    rows: Tensor
    columns: Tensor


class Multiply(torch.autograd.Function):
    """`x @ W_k.T` for each weight; the gradients at x are summed here."""

    @staticmethod
    def forward(ctx, step: Step, recorder: Recorder, x: Tensor, *weights: Tensor):
        """x [n, in], W_k [out_k, in] -> [n, out_k] each."""
        ctx.step, ctx.recorder = step, recorder
        ctx.save_for_backward(x, *weights)
        with recorder.span(f"{step.name}/forward"):
            return tuple(matmul(x, weight.t()) for weight in weights)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        """Gradients at x (summed) and at each weight."""
        x, *weights = ctx.saved_tensors
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            grad_weights = [matmul(grad.t(), x) for grad in grads]
            grad_x = None
            if ctx.needs_input_grad[2]:
                grad_x = matmul(grads[0], weights[0])
                for grad, weight in zip(grads[1:], weights[1:]):
                    grad_x.addmm_(grad, weight)
        return None, None, grad_x, *grad_weights


class MultiplySparse(torch.autograd.Function):
    """`Multiply` on sparse input features: SpMM forward and for the weight gradient."""

    @staticmethod
    def forward(ctx, step: Step, recorder: Recorder, x: SparseInput, *weights: Tensor):
        """CSR [n, F], W_k [out_k, F] -> dense [n, out_k] each."""
        ctx.step, ctx.recorder, ctx.x = step, recorder, x
        with recorder.span(f"{step.name}/forward"):
            return tuple(spmm(x.rows, transposed(weight)) for weight in weights)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        """Gradients at the weights only: input features need none."""
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            grad_weights = [transposed(spmm(ctx.x.columns, grad)) for grad in grads]
        return None, None, None, *grad_weights


class Combine(torch.autograd.Function):
    """`sum_k x_k @ W_k.T`; arguments are x_0..x_K, then W_0..W_K."""

    @staticmethod
    def forward(ctx, step: Step, recorder: Recorder, *tensors: Tensor):
        """x_k [n, in], W_k [out, in] -> [n, out]."""
        ctx.step, ctx.recorder = step, recorder
        ctx.save_for_backward(*tensors)
        half = len(tensors) // 2
        with recorder.span(f"{step.name}/forward"):
            out = matmul(tensors[0], tensors[half].t())
            for x, weight in zip(tensors[1:half], tensors[half + 1 :]):
                out.addmm_(x, weight.t())
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Gradients at every x_k that needs one and at every weight."""
        half = len(ctx.saved_tensors) // 2
        xs, weights = ctx.saved_tensors[:half], ctx.saved_tensors[half:]
        needs = ctx.needs_input_grad[2 : 2 + half]
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            grad_weights = [matmul(grad.t(), x) for x in xs]
            grad_xs = [matmul(grad, weight) if need else None for weight, need in zip(weights, needs)]
        return None, None, *grad_xs, *grad_weights


class CombineSparse(torch.autograd.Function):
    """`Combine` on sparse input features; the inputs travel in `xs`, the weights as tensors."""

    @staticmethod
    def forward(ctx, step: Step, recorder: Recorder, xs: tuple[SparseInput, ...], *weights: Tensor):
        """CSR x_k [n, F], W_k [out, F] -> dense [n, out]."""
        ctx.step, ctx.recorder, ctx.xs = step, recorder, xs
        with recorder.span(f"{step.name}/forward"):
            out = spmm(xs[0].rows, transposed(weights[0]))
            for x, weight in zip(xs[1:], weights[1:]):
                spmm_add_(out, x.rows, transposed(weight))
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Gradients at the weights only."""
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            grad_weights = [transposed(spmm(x.columns, grad)) for x in ctx.xs]
        return None, None, None, *grad_weights


class Aggregate(torch.autograd.Function):
    """`A @ x` over local and halo rows, plus `base` where given; with `keep` x is passed on.

    Passing x on lets the gradient of its other uses enter here, where it is added in place.
    """

    @staticmethod
    def forward(ctx, step: Step, block: Block, x: Tensor, base: Tensor | None):
        """x [n, width], base [n, width] (overwritten) -> [n, width], and x again with `keep`."""
        ctx.step, ctx.block = step, block
        if base is not None:
            ctx.mark_dirty(base)
        forward = _aggregate_in_parts if block.splits(step.name) else _aggregate
        out = forward(step, block, x, base)
        return (out, x.view_as(x)) if step.keep else out

    @staticmethod
    def backward(ctx, grad: Tensor, grad_kept: Tensor | None = None):
        """Transposed aggregation; halo gradients go back to their owners."""
        step, block = ctx.step, ctx.block
        grad_base = grad if step.base else None
        if not ctx.needs_input_grad[2]:
            return None, None, None, grad_base
        backward = _give_back_in_parts if block.splits(step.name) else _give_back
        return None, None, backward(step, block, grad, grad_kept), grad_base


def _aggregate(step: Step, block: Block, x: Tensor, base: Tensor | None) -> Tensor:
    exchanger = block.exchanger
    halo = None if exchanger.is_alone else exchanger.fetch(x, step.name)
    with exchanger.recorder.span(f"{step.name}/forward"):
        out = _add_product(base, block.local, x)
        if halo is not None:
            spmm_add_(out, block.remote, halo)
    return out


def _aggregate_in_parts(step: Step, block: Block, x: Tensor, base: Tensor | None) -> Tensor:
    """The same sums in the same order."""
    exchanger = block.exchanger
    transfer = exchanger.begin_fetch(x, step.name)
    with exchanger.recorder.span(f"{step.name}/near/forward"):
        out = _add_product(base, block.local, x)
    halo = exchanger.end_fetch(transfer, step.name)
    with exchanger.recorder.span(f"{step.name}/far/forward"):
        return spmm_add_(out, block.remote, halo)


def _give_back(step: Step, block: Block, grad: Tensor, grad_kept: Tensor | None) -> Tensor:
    exchanger, grad_halo = block.exchanger, None
    sends = exchanger.sends(step.name)
    name = step.name if sends or exchanger.is_alone else f"{step.name}/local"
    with exchanger.recorder.span(f"{name}/backward"):
        if sends:
            grad_halo = spmm(block.remote_t, grad)
        grad_x = _add_product(grad_kept, block.local_t, grad)
    return grad_x if exchanger.is_alone else exchanger.give_back_(grad_halo, grad_x, step.name)


def _give_back_in_parts(step: Step, block: Block, grad: Tensor, grad_kept: Tensor | None) -> Tensor:
    """The same sums in the same order."""
    exchanger = block.exchanger
    with exchanger.recorder.span(f"{step.name}/far/backward"):
        grad_halo = spmm(block.remote_t, grad)
    transfer = exchanger.begin_give_back(grad_halo, step.name)
    with exchanger.recorder.span(f"{step.name}/near/backward"):
        grad_x = _add_product(grad_kept, block.local_t, grad)
    return exchanger.end_give_back_(transfer, grad_x, step.name)


def _add_product(base: Tensor | None, matrix: Tensor, dense: Tensor) -> Tensor:
    """`base + matrix @ dense`, in place on `base` where it is given."""
    return spmm(matrix, dense) if base is None else spmm_add_(base, matrix, dense)


class Attend(torch.autograd.Function):
    """GAT's attention over the in-neighbours; averages the heads where the step narrows the width."""

    @staticmethod
    def forward(
        ctx, step: Step, edges: EdgeBlock, recorder: Recorder, q: Tensor, att_source: Tensor, att_target: Tensor
    ):
        """q [n + h, H * C], att_* [1, H, C] -> [n, H * C], or [n, C] averaged."""
        ctx.step, ctx.edges, ctx.recorder = step, edges, recorder
        ctx.averages = step.out_widths[0] != step.in_width
        with recorder.span(f"{step.name}/forward"):
            out, scores = attend_forward(edges, q, att_source, att_target, averages=ctx.averages)
            ctx.save_for_backward(q, att_source, att_target, scores.source, scores.target, scores.alpha)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Gradients at the rows with halo and at both attention vectors."""
        q, att_source, att_target, *scores = ctx.saved_tensors
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            grads = attend_backward(ctx.edges, q, att_source, att_target, Scores(*scores), grad, averages=ctx.averages)
        return None, None, None, *grads


class Activate(torch.autograd.Function):
    """`dropout(relu(z + bias))`, in place on z."""

    @staticmethod
    def forward(
        ctx, step: Step, recorder: Recorder, z: Tensor, bias: Tensor, dropout: float, key: int, vertices: Tensor
    ):
        """z [n, width] (overwritten), bias [width] -> [n, width]."""
        ctx.step, ctx.recorder, ctx.dropout = step, recorder, dropout
        with recorder.span(f"{step.name}/forward"):
            ctx.mark_dirty(z)
            out = activate_(z, bias, relu=step.relu, dropout=dropout, key=key, vertices=vertices)
        if step.relu:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Gradients at z and at the bias.

        In place on `grad`: a value has one consumer, whose fresh tensor it is.
        """
        with ctx.recorder.span(f"{ctx.step.name}/backward"):
            out = ctx.saved_tensors[0] if ctx.step.relu else grad
            grad_z = activate_backward_(grad, out, relu=ctx.step.relu, dropout=ctx.dropout)
            grad_bias = grad_z.sum(0)
        return None, None, grad_z, grad_bias, None, None, None
