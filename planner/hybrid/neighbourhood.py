"""The multi-hop neighbourhood of a worker's halo: what it would need to compute halo rows itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

from gnnplan.planner.halo import LocalBlock


@dataclass(frozen=True)
class Neighbourhood:
    """The halo, and the vertices beyond it that its rows gather from, hop by hop.

    Shapes: h halo vertices, b beyond, n = h + b, both numbered in this order.

    Local rows are at hand, and so is every halo row, fetched or computed: the neighbourhood goes on
    through vertices beyond the halo only.

    Args:
        vertices: int64 [n], global ids; the halo in the order of its block.
        num_halo: h.
        owner: int32 [h], of each halo vertex.
        num_hops: how far it goes.
        num_entries: int64 [n], entries of each vertex's row of the aggregation matrix.
        starts: int64 [n + 1], offsets into `gathers`.
        gathers: int32, for each vertex those beyond the halo that its row gathers; nothing at the last hop.
    """

    vertices: np.ndarray
    num_halo: int
    owner: np.ndarray
    num_hops: int
    num_entries: np.ndarray
    starts: np.ndarray
    gathers: np.ndarray

    @property
    def num_beyond(self) -> int:
        """b."""
        return len(self.vertices) - self.num_halo


def build_neighbourhood(matrix: sp.csr_matrix, block: LocalBlock, num_hops: int) -> Neighbourhood:
    """Follows the rows of the aggregation matrix [N, N] for `num_hops` from a worker's halo."""
    number = np.full(matrix.shape[0], -1, np.int32)
    at_hand = np.zeros(matrix.shape[0], bool)
    at_hand[block.vertices] = at_hand[block.halo] = True
    found, counts, gathers = [block.halo], [], []
    num_found = len(block.halo)
    for _ in range(num_hops):
        rows = matrix[found[-1]]
        beyond = ~at_hand[rows.indices]
        columns = rows.indices[beyond]
        new = np.unique(columns[number[columns] < 0]).astype(np.int64)
        number[new] = np.arange(num_found, num_found + len(new))
        num_found += len(new)
        kept_before = np.concatenate([[0], np.cumsum(beyond)])
        counts.append(np.diff(kept_before[rows.indptr]))
        gathers.append(number[columns])
        found.append(new)
    counts.append(np.zeros(len(found[-1]), np.int64))
    vertices = np.concatenate(found)
    return Neighbourhood(
        vertices=vertices,
        num_halo=len(block.halo),
        owner=block.halo_owner,
        num_hops=num_hops,
        num_entries=np.diff(matrix.indptr).astype(np.int64)[vertices],
        starts=np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64),
        gathers=np.concatenate([np.empty(0, np.int32), *gathers]),
    )


@dataclass(frozen=True)
class HopCounts:
    """What caching one halo vertex brings with it, per hop; hop 0 is the vertex itself.

    Args:
        num_vertices: int64 [h, num_hops + 1], distinct vertices met for the first time at each hop.
        num_edges: int64 [h, num_hops + 1], entries of their rows of the aggregation matrix.
        num_reached_from: int64 [n, num_hops + 1], halo vertices at each distance from a vertex.
    """

    num_vertices: np.ndarray
    num_edges: np.ndarray
    num_reached_from: np.ndarray


def count_hops(near: Neighbourhood) -> HopCounts:
    """One breadth-first search per halo vertex."""
    shape = (near.num_halo, near.num_hops + 1)
    counts = HopCounts(
        num_vertices=np.zeros(shape, np.int64),
        num_edges=np.zeros(shape, np.int64),
        num_reached_from=np.zeros((len(near.vertices), near.num_hops + 1), np.int64),
    )
    _count(near.starts, near.gathers, near.num_entries, counts.num_vertices, counts.num_edges, counts.num_reached_from)
    return counts


def sum_over_hops(near: Neighbourhood, table: np.ndarray) -> np.ndarray:
    """For every halo vertex, the sum over its neighbourhood of `table[w, hop of w]`.

    Args:
        table: float64 [n, num_hops + 1, c].
    Returns:
        float64 [h, c].
    """
    total = np.zeros((near.num_halo, table.shape[2]))
    _sum(near.starts, near.gathers, table, total)
    return total


@njit(nogil=True, cache=True)
def _search(root, starts, gathers, num_hops, seen, queue, hop_starts):  # pragma: no cover - compiled
    """Breadth first from `root`: hop k's vertices lie in `queue` from hop_starts[k] to hop_starts[k + 1]."""
    seen[root] = root
    queue[0] = root
    hop_starts[0], hop_starts[1] = 0, 1
    num_found = 1
    for hop in range(num_hops):
        for i in range(hop_starts[hop], hop_starts[hop + 1]):
            for edge in range(starts[queue[i]], starts[queue[i] + 1]):
                vertex = gathers[edge]
                if seen[vertex] != root:
                    seen[vertex] = root
                    queue[num_found] = vertex
                    num_found += 1
        hop_starts[hop + 2] = num_found


@njit(nogil=True, cache=True)
def _count(starts, gathers, num_entries, num_vertices, num_edges, num_reached_from):  # pragma: no cover - compiled
    num_halo, num_levels = num_vertices.shape
    seen = np.full(len(num_entries), -1, np.int32)
    queue = np.empty(len(num_entries), np.int32)
    hop_starts = np.empty(num_levels + 1, np.int64)
    for root in range(num_halo):
        _search(root, starts, gathers, num_levels - 1, seen, queue, hop_starts)
        for hop in range(num_levels):
            num_vertices[root, hop] = hop_starts[hop + 1] - hop_starts[hop]
            for i in range(hop_starts[hop], hop_starts[hop + 1]):
                num_edges[root, hop] += num_entries[queue[i]]
                num_reached_from[queue[i], hop] += 1


@njit(nogil=True, cache=True)
def _sum(starts, gathers, table, total):  # pragma: no cover - compiled
    num_levels = table.shape[1]
    seen = np.full(table.shape[0], -1, np.int32)
    queue = np.empty(table.shape[0], np.int32)
    hop_starts = np.empty(num_levels + 1, np.int64)
    for root in range(total.shape[0]):
        _search(root, starts, gathers, num_levels - 1, seen, queue, hop_starts)
        for hop in range(num_levels):
            for i in range(hop_starts[hop], hop_starts[hop + 1]):
                for column in range(table.shape[2]):
                    total[root, column] += table[queue[i], hop, column]
