"""A graph by target: the in-neighbours of every vertex side by side, as sampling reads them.

Shapes: N vertices, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

MAX_VERTICES = 2**31 - 1


@dataclass(frozen=True)
class Csc:
    """In-neighbours in compressed sparse column form.

    Args:
        indptr: int64 [N + 1]; vertex v's in-neighbours lie at positions indptr[v]..indptr[v + 1] - 1.
        indices: int32 or int64 [E], the source of the edge at each position.
        edge_ids: int64 [E], which edge of the original list lies at each position; None where
            positions and edges are the same.
    """

    indptr: np.ndarray
    indices: np.ndarray
    edge_ids: np.ndarray | None = None

    @property
    def num_vertices(self) -> int:
        """N."""
        return len(self.indptr) - 1


def csc_from_edges(edge_index: np.ndarray, num_vertices: int) -> Csc:
    """Sorts edges [2, E] (row 0 source, row 1 target) by target; edges of one target stay in order.

    Vertices must lie in 0..num_vertices - 1, and num_vertices be below 2^31.
    """
    assert num_vertices <= MAX_VERTICES, "vertices are kept as int32"
    sources, targets = edge_index
    indptr = np.zeros(num_vertices + 1, np.int64)
    if _count(targets, indptr):
        return Csc(indptr, sources.astype(np.int32))
    indices, edge_ids = np.empty(len(sources), np.int32), np.empty(len(sources), np.int64)
    _place(sources, targets, indptr[:-1].copy(), indices, edge_ids)
    return Csc(indptr, indices, edge_ids)


def in_neighbours_of(graph: Csc, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lists of some vertices, one behind the other [k], and int64 [N] where each begins; -1 for other vertices."""
    degrees = graph.indptr[vertices + 1] - graph.indptr[vertices]
    ends = np.cumsum(degrees)
    starts = np.full(graph.num_vertices, -1, np.int64)
    starts[vertices] = ends - degrees
    lists = np.empty(ends[-1] if len(ends) else 0, graph.indices.dtype)
    _copy_lists(graph.indptr, graph.indices, vertices, starts, lists)
    return lists, starts


def out_degrees(graph: Csc) -> np.ndarray:
    """int64 [N], in how many lists of in-neighbours each vertex is."""
    degrees = np.zeros(graph.num_vertices, np.int64)
    _count_sources(graph.indices, degrees)
    return degrees


@njit(nogil=True, cache=True)
def _count(targets, indptr):  # pragma: no cover - compiled
    """Fills `indptr` (zeros before); whether the targets are in order already."""
    in_order = True
    for edge in range(len(targets)):
        indptr[targets[edge] + 1] += 1
        if edge and targets[edge] < targets[edge - 1]:
            in_order = False
    for vertex in range(len(indptr) - 1):
        indptr[vertex + 1] += indptr[vertex]
    return in_order


@njit(nogil=True, cache=True)
def _place(sources, targets, free, indices, edge_ids):  # pragma: no cover - compiled
    """`free` holds the next free position of each target and is used up."""
    for edge in range(len(targets)):
        position = free[targets[edge]]
        free[targets[edge]] = position + 1
        indices[position] = sources[edge]
        edge_ids[position] = edge


@njit(nogil=True, cache=True)
def _copy_lists(indptr, indices, vertices, starts, lists):  # pragma: no cover - compiled
    for i in range(len(vertices)):
        at, vertex = starts[vertices[i]], vertices[i]
        for position in range(indptr[vertex], indptr[vertex + 1]):
            lists[at] = indices[position]
            at += 1


@njit(nogil=True, cache=True)
def _count_sources(indices, degrees):  # pragma: no cover - compiled
    for position in range(len(indices)):
        degrees[indices[position]] += 1
