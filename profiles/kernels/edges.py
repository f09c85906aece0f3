"""Operators over the edges of a block, with a coefficient a head: compiled by numba on a CPU, torch's own on CUDA.

Shapes: n target rows, m source rows, E edges, H heads, C channels a head. Rows are [rows, H * C], scores and
coefficients [E, H]. Edges stand in the CSR order of their targets. `EdgeBlock` lists them by source too, so that both
directions run in parallel, without atomics and with a fixed order of additions; the loops are in
`gnnplan.profiles.kernels.edge_loops`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.edge_block import NEGATIVE_SLOPE, EdgeBlock
from gnnplan.profiles.kernels.lazily import Lazily

edge_loops = Lazily("gnnplan.profiles.kernels.edge_loops")
numba = Lazily("numba")


def edge_scores(edges: EdgeBlock, source: Tensor, target: Tensor) -> Tensor:
    """[E, H]: leaky ReLU of `source` [m, H] at every edge's source plus `target` [n, H] at its target."""
    out = pool.empty(source.device, len(edges.source), source.shape[1])
    if source.device.type == "cpu":
        edge_loops.scores(edges.source.numpy(), edges.target.numpy(), source.numpy(), target.numpy(), out.numpy())
        return out
    total = torch.index_select(source, 0, edges.source, out=out).add_(target[edges.target])
    return torch.nn.functional.leaky_relu(total, NEGATIVE_SLOPE, inplace=True)


def edge_scores_backward(edges: EdgeBlock, grad: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients [m, H] and [n, H] from `grad` [E, H]."""
    to_source, to_target = pool.empty_like(source), pool.empty_like(target)
    if grad.device.type == "cpu":
        by_target = edges.indptr.numpy(), edges.source.numpy()
        values = source.numpy(), target.numpy(), grad.numpy()
        if numba.get_num_threads() == 1:
            edge_loops.scores_to_both(*by_target, *values, to_source.numpy(), to_target.numpy())
        else:
            edge_loops.scores_to_targets(*by_target, *values, to_target.numpy())
            edge_loops.scores_to_sources(*_by_source(edges), *values, to_source.numpy())
        return to_source, to_target
    total = source[edges.source].add_(target[edges.target])
    of_total = torch.ops.aten.leaky_relu_backward.grad_input(grad, total, NEGATIVE_SLOPE, False, grad_input=total)
    to_source.zero_().index_add_(0, edges.source, of_total)
    return to_source, to_target.zero_().index_add_(0, edges.target, of_total)


def edge_softmax(blocks: list[EdgeBlock], scores: list[Tensor]) -> tuple[Tensor, ...]:
    """Softmax of scores [E_b, H] over each target's edges in all blocks together; new tensors."""
    num_targets, heads, device = len(blocks[0].indptr) - 1, scores[0].shape[1], scores[0].device
    top = pool.empty(device, num_targets, heads).fill_(-torch.inf)
    total = pool.empty(device, num_targets, heads).zero_()
    weights = [pool.empty_like(score) for score in scores]
    if device.type == "cpu":
        for edges, score in zip(blocks, scores, strict=True):
            edge_loops.tops(edges.indptr.numpy(), score.numpy(), top.numpy())
        for edges, score, weight in zip(blocks, scores, weights, strict=True):
            edge_loops.exponentials(edges.indptr.numpy(), score.numpy(), top.numpy(), weight.numpy(), total.numpy())
        for edges, weight in zip(blocks, weights, strict=True):
            edge_loops.divide(edges.indptr.numpy(), weight.numpy(), total.numpy())
        return tuple(weights)
    for edges, score in zip(blocks, scores, strict=True):
        top.scatter_reduce_(0, edges.target[:, None].expand_as(score), score, "amax")
    for edges, score, weight in zip(blocks, scores, weights, strict=True):
        torch.sub(score, top[edges.target], out=weight).exp_()
        total.index_add_(0, edges.target, weight)
    return tuple(weight.div_(total[edges.target]) for edges, weight in zip(blocks, weights, strict=True))


def edge_softmax_backward(blocks: list[EdgeBlock], grads: list[Tensor], alphas: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients at the scores from those at the coefficients; new tensors."""
    num_targets, heads, device = len(blocks[0].indptr) - 1, grads[0].shape[1], grads[0].device
    mean = pool.empty(device, num_targets, heads).zero_()
    out = [pool.empty_like(grad) for grad in grads]
    if device.type == "cpu":
        for edges, grad, alpha in zip(blocks, grads, alphas, strict=True):
            edge_loops.add_means(edges.indptr.numpy(), grad.numpy(), alpha.numpy(), mean.numpy())
        for edges, grad, alpha, to in zip(blocks, grads, alphas, out, strict=True):
            edge_loops.centre(edges.indptr.numpy(), grad.numpy(), alpha.numpy(), mean.numpy(), to.numpy())
        return tuple(out)
    for edges, grad, alpha in zip(blocks, grads, alphas, strict=True):
        mean.index_add_(0, edges.target, grad * alpha)
    for edges, grad, alpha, to in zip(blocks, grads, alphas, out, strict=True):
        torch.sub(grad, mean[edges.target], out=to).mul_(alpha)
    return tuple(out)


def weigh(edges: EdgeBlock, alpha: Tensor, x: Tensor, base: Tensor | None = None, *, back: bool = False) -> Tensor:
    """Sum over edges of `alpha` [E, H] times the source's row of `x` [m, H * C]: [n, H * C], added to `base` in place.

    Args:
        back: from targets to sources, x [n, H * C] -> [m, H * C].
    """
    heads = alpha.shape[1]
    num_rows = len(edges.by_source_ptr if back else edges.indptr) - 1
    out = pool.empty(x.device, num_rows, x.shape[1]).zero_() if base is None else base
    rows, h = (each.view(len(each), heads, x.shape[1] // heads) for each in (out, x))
    if x.device.type != "cpu":
        to, of = (edges.source, edges.target) if back else (edges.target, edges.source)
        rows.index_add_(0, to, h[of].mul_(alpha[:, :, None]))
    elif not back:
        edge_loops.weigh(edges.indptr.numpy(), edges.source.numpy(), alpha.numpy(), h.numpy(), rows.numpy())
    elif numba.get_num_threads() == 1:
        edge_loops.weigh_back_alone(edges.indptr.numpy(), edges.source.numpy(), alpha.numpy(), h.numpy(), rows.numpy())
    else:
        edge_loops.weigh_back(*_by_source(edges), alpha.numpy(), h.numpy(), rows.numpy())
    return out


def weigh_backward(edges: EdgeBlock, grad: Tensor, x: Tensor, heads: int) -> Tensor:
    """[E, H]: inner products in every head of `grad` [n, H * C] at the target and `x` [m, H * C] at the source."""
    out = pool.empty(x.device, len(edges.source), heads)
    g, h = (each.view(len(each), heads, x.shape[1] // heads) for each in (grad, x))
    if x.device.type == "cpu":
        edge_loops.edge_dots(edges.indptr.numpy(), edges.source.numpy(), g.numpy(), h.numpy(), out.numpy())
        return out
    return torch.sum(g[edges.target].mul_(h[edges.source]), -1, out=out)


def _by_source(edges: EdgeBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return edges.by_source_ptr.numpy(), edges.by_source_edge.numpy(), edges.target.numpy()
