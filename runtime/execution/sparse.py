"""Sums over edges."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels.edges import (
    edge_scores,
    edge_scores_backward,
    edge_softmax,
    edge_softmax_backward,
    weigh,
    weigh_backward,
)
from gnnplan.profiles.kernels.halves import half_product, half_product_add_
from gnnplan.profiles.kernels.heads import head_dots, head_dots_to_rows, head_dots_to_vector
from gnnplan.profiles.kernels.sparse import spmm, spmm_add_
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.dense import writable
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import Execution, executes


@executes("aggregate")
def _aggregate(c: Context, op: Operator) -> Execution:
    if c.cycle.values[op.reads[0]].layout == "csr":
        matrix = c.host_matrix(op.attributes["block"])

        def sparse(x: SparseRows, *base: SparseRows) -> SparseRows:
            product = matrix @ x.matrix
            return x.of(product + base[0].matrix if base else product)

        return sparse
    on_device, last = c.matrix(op), len(op.reads) - 1

    def halves(x: Tensor, *base: Tensor) -> Tensor:
        assert isinstance(on_device, Tensor), op.key
        if base:
            return half_product_add_(writable(op, last, base[0]), on_device, x)
        return half_product(on_device, x)

    def run(x: Tensor, *base: Tensor) -> Tensor:
        return spmm_add_(writable(op, last, base[0]), on_device, x) if base else spmm(on_device, x)

    return halves if c.is_half(op.reads[0]) else run


@executes("dot")
def _dot(c: Context, op: Operator) -> Execution:
    return lambda x, vector: head_dots(x, vector, op.attributes["heads"])


@executes("dot_grad")
def _dot_grad(c: Context, op: Operator) -> Execution:
    last = len(op.reads) - 1

    def run(grad: Tensor, vector: Tensor, *base: Tensor) -> Tensor:
        return head_dots_to_rows(grad, vector, writable(op, last, base[0]) if base else None)

    return run


@executes("dot_gram")
def _dot_gram(c: Context, op: Operator) -> Execution:
    return lambda grad, x, vector: head_dots_to_vector(grad, x).view_as(vector)


@executes("score")
def _score(c: Context, op: Operator) -> Execution:
    edges = c.edges(op.attributes["block"])
    return lambda source, target: edge_scores(edges, source, target)


@executes("score_grad")
def _score_grad(c: Context, op: Operator) -> Execution:
    edges = c.edges(op.attributes["block"])
    return lambda grad, source, target: edge_scores_backward(edges, grad, source, target)


@executes("softmax")
def _softmax(c: Context, op: Operator) -> Execution:
    blocks = [c.edges(name) for name in op.attributes["blocks"]]
    return lambda *scores: edge_softmax(blocks, list(scores))


@executes("softmax_grad")
def _softmax_grad(c: Context, op: Operator) -> Execution:
    blocks = [c.edges(name) for name in op.attributes["blocks"]]
    half = len(blocks)
    return lambda *both: edge_softmax_backward(blocks, list(both[:half]), list(both[half:]))


@executes("weigh")
def _weigh(c: Context, op: Operator) -> Execution:
    edges, back, last = c.edges(op.attributes["block"]), bool(op.attributes.get("back")), len(op.reads) - 1

    def run(alpha: Tensor, x: Tensor, *base: Tensor) -> Tensor:
        return weigh(edges, alpha, x, writable(op, last, base[0]) if base else None, back=back)

    return run


@executes("weigh_grad")
def _weigh_grad(c: Context, op: Operator) -> Execution:
    edges, heads = c.edges(op.attributes["block"]), op.attributes["heads"]
    return lambda grad, x: weigh_backward(edges, grad, x, heads)


@executes("pair_score")
def _pair_score(c: Context, op: Operator) -> Execution:
    pairs = c.edges(op.attributes["block"])
    return lambda heads, tails: weigh_backward(pairs, heads, tails, 1)
