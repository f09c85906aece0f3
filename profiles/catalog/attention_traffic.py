"""Bytes of GAT's operators over edges and heads, as `gnnplan.profiles.kernels.edges` and `heads` run them on CUDA.

Counted as in `gnnplan.profiles.catalog.traffic`; rows are of 4 heads, as the profiler times them.
"""

from __future__ import annotations

from gnnplan.profiles.catalog.passes import FLOAT, INDEX, Traffic, random_row_bytes

_HEADS = 4


def _gathered(width: float) -> float:
    """A row's number is read, then the row at random, which is written."""
    return INDEX + random_row_bytes(width) + FLOAT * width


def _added(width: float) -> float:
    """A row's number and the row are read, and the sum at random is read and written."""
    return INDEX + FLOAT * width + 2 * random_row_bytes(width)


def edge_scores_bytes(num_rows: float, degree: float, heads: float) -> float:
    """An edge: both ends are gathered, added (12 a head), and cut in place (8)."""
    return num_rows * degree * (2 * _gathered(heads) + 20 * heads)


def edge_scores_backward_bytes(num_rows: float, degree: float, heads: float) -> float:
    """An edge: both ends gathered and added (12 a head), the gradient cut in their place (12), added to both ends. A
    row: both sums are cleared.
    """
    return num_rows * degree * (2 * _gathered(heads) + 24 * heads + 2 * _added(heads)) + num_rows * 2 * FLOAT * heads


def edge_softmax_bytes(num_rows: float, degree: float, heads: float) -> float:
    """An edge: its target's maximum is raised, gathered and taken off (12 a head), exp (8), the sum added to, gathered
    and divided by (12). A row: maximum and sum are set.
    """
    edges = num_rows * degree
    return edges * (2 * _added(heads) + 2 * _gathered(heads) + 32 * heads) + num_rows * 2 * FLOAT * heads


def edge_softmax_backward_bytes(num_rows: float, degree: float, heads: float) -> float:
    """An edge: gradient times coefficient (12 a head), added to its target's mean, which is gathered, taken off (12)
    and multiplied (12). A row: the mean is cleared.
    """
    return num_rows * degree * (_added(heads) + _gathered(heads) + 36 * heads) + num_rows * FLOAT * heads


def weigh_bytes(num_rows: float, degree: float, width: float) -> float:
    """An edge: a row is gathered, multiplied (8 a column, 4 a head) and added at the other end."""
    return num_rows * degree * (_gathered(width) + 8 * width + FLOAT * _HEADS + _added(width))


def edge_dots_bytes(num_rows: float, degree: float, width: float) -> float:
    """An edge: the rows of both ends are gathered, multiplied (12 a column) and summed (4, and 4 a head)."""
    return num_rows * degree * (2 * _gathered(width) + 16 * width + FLOAT * _HEADS)


def head_dots_bytes(num_rows: float, width: float) -> float:
    """A row is read once; a head's product is written, and copied to its column."""
    return num_rows * FLOAT * (width + 3 * _HEADS)


def head_dots_to_rows_bytes(num_rows: float, width: float) -> float:
    """A row is read and written; a number a head is read."""
    return num_rows * FLOAT * (2 * width + _HEADS)


def head_dots_to_vector_bytes(num_rows: float, width: float) -> float:
    """A row and a number a head are read."""
    return num_rows * FLOAT * (width + _HEADS)


def mean_bytes(num_rows: float, width: float) -> float:
    """A row of all heads and one of their mean: one is read, the other written."""
    return num_rows * FLOAT * (width + width / _HEADS)


ATTENTION: dict[str, Traffic] = {
    "edge_scores": Traffic(edge_scores_bytes, launches=4),
    "edge_scores_backward": Traffic(edge_scores_backward_bytes, launches=8),
    "edge_softmax": Traffic(edge_softmax_bytes, launches=9),
    "edge_softmax_backward": Traffic(edge_softmax_backward_bytes, launches=6),
    "weigh": Traffic(weigh_bytes, launches=3),
    "weigh_transposed": Traffic(weigh_bytes, launches=3),
    "edge_dots": Traffic(edge_dots_bytes, launches=4),
    "head_dots": Traffic(head_dots_bytes, launches=2 * _HEADS),
    "head_dots_to_rows": Traffic(head_dots_to_rows_bytes),
    "head_dots_to_vector": Traffic(head_dots_to_vector_bytes, launches=2),
    "average_heads": Traffic(mean_bytes),
    "spread_heads": Traffic(mean_bytes),
}
