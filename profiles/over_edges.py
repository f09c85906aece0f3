"""GAT's operators over edges and heads, as timed calls over shapes.

Scores depend on the number of heads and not on the width, so heads are an axis of theirs. Rows are timed with
`GAT_HEADS` heads, and their widths are totals over these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.profiles.kernels.edges import (
    edge_scores,
    edge_scores_backward,
    edge_softmax,
    edge_softmax_backward,
    weigh,
    weigh_backward,
)
from gnnplan.profiles.kernels.heads import (
    average_heads,
    head_dots,
    head_dots_to_rows,
    head_dots_to_vector,
    spread_heads,
)
from gnnplan.profiles.operands import dense, random_csr

Shape = tuple[float, ...]
Make = Callable[[Shape, torch.device], Callable[[], object]]
GAT_HEADS = 4  # the paper's hidden layers have 8, the usual small setting 4


# A grid's last axis is timed with one graph after another.
@lru_cache(maxsize=1)
def _edges(rows: int, degree: float, device: torch.device) -> EdgeBlock:
    return EdgeBlock.from_csr(random_csr(rows, degree), device)


def _scored(shape: Shape, device: torch.device) -> tuple[EdgeBlock, list[Tensor], list[Tensor]]:
    """A block, two scores a row, and two values an edge."""
    rows, degree, heads = int(shape[0]), shape[1], int(shape[2])
    edges = _edges(rows, degree, device)
    num_edges = len(edges.source)
    return edges, [dense(device, rows, heads) for _ in range(2)], [dense(device, num_edges, heads) for _ in range(2)]


def _edge_scores(shape: Shape, device: torch.device):
    edges, (source, target), _ = _scored(shape, device)
    return lambda: edge_scores(edges, source, target)


def _edge_scores_backward(shape: Shape, device: torch.device):
    edges, (source, target), (grad, _) = _scored(shape, device)
    return lambda: edge_scores_backward(edges, grad, source, target)


def _edge_softmax(shape: Shape, device: torch.device):
    edges, _, (scores, _) = _scored(shape, device)
    return lambda: edge_softmax([edges], [scores])


def _edge_softmax_backward(shape: Shape, device: torch.device):
    edges, _, (grad, alpha) = _scored(shape, device)
    return lambda: edge_softmax_backward([edges], [grad], [alpha])


def _weighed(shape: Shape, device: torch.device, *, back: bool = False):
    """Added to a sum, as those over halo rows are."""
    edges, x = _edges(int(shape[0]), shape[1], device), _rows(shape, device)
    alpha, out = dense(device, len(edges.source), GAT_HEADS), torch.zeros_like(x)
    return lambda: weigh(edges, alpha, x, out, back=back)


def _edge_dots(shape: Shape, device: torch.device):
    edges, grad, x = _edges(int(shape[0]), shape[1], device), _rows(shape, device), _rows(shape, device)
    return lambda: weigh_backward(edges, grad, x, GAT_HEADS)


def _rows(shape: Shape, device: torch.device) -> Tensor:
    """Of all heads; the last axis is their width."""
    return dense(device, shape[0], GAT_HEADS * _channels(shape))


def _channels(shape: Shape) -> int:
    return max(1, int(shape[-1]) // GAT_HEADS)


def _vector(shape: Shape, device: torch.device) -> Tensor:
    return dense(device, 1, GAT_HEADS * _channels(shape))


def _head_dots(shape: Shape, device: torch.device):
    x, vector = _rows(shape, device), _vector(shape, device)
    return lambda: head_dots(x, vector, GAT_HEADS)


def _head_dots_to_rows(shape: Shape, device: torch.device):
    grad, vector, out = dense(device, shape[0], GAT_HEADS), _vector(shape, device), _rows(shape, device)
    return lambda: head_dots_to_rows(grad, vector, out)


def _head_dots_to_vector(shape: Shape, device: torch.device):
    grad, x = dense(device, shape[0], GAT_HEADS), _rows(shape, device)
    return lambda: head_dots_to_vector(grad, x)


def _average_heads(shape: Shape, device: torch.device):
    x = _rows(shape, device)
    return lambda: average_heads(x, GAT_HEADS)


def _spread_heads(shape: Shape, device: torch.device):
    x = dense(device, shape[0], _channels(shape))
    return lambda: spread_heads(x, GAT_HEADS)


OF_SCORES: dict[str, Make] = {
    "edge_scores": _edge_scores,
    "edge_scores_backward": _edge_scores_backward,
    "edge_softmax": _edge_softmax,
    "edge_softmax_backward": _edge_softmax_backward,
}
OF_ROWS: dict[str, Make] = {
    "weigh": _weighed,
    "weigh_transposed": lambda shape, device: _weighed(shape, device, back=True),
    "edge_dots": _edge_dots,
}
OF_HEADS: dict[str, Make] = {
    "head_dots": _head_dots,
    "head_dots_to_rows": _head_dots_to_rows,
    "head_dots_to_vector": _head_dots_to_vector,
    "average_heads": _average_heads,
    "spread_heads": _spread_heads,
}
