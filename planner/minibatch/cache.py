"""Which rows of the graph and of the features a device keeps, of those that batches read over UVA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SECTOR_BYTES = 32  # what a GPU reads over the bus at least, however little of it is used


@dataclass(frozen=True)
class Accesses:
    """What the batches of a presampling pass read.

    Args:
        edge_reads: [N], edges drawn from each vertex's in-neighbours, in all.
        feature_reads: [N], times each vertex's feature row was read.
        num_batches: they stand for.
    """

    edge_reads: np.ndarray
    feature_reads: np.ndarray
    num_batches: int


@dataclass(frozen=True)
class CachePlan:
    """Vertices whose in-neighbours, and vertices whose features, lie on the device.

    Args:
        adjacency, features: int64 [a] and [f], ascending.
        adjacency_bytes, feature_bytes: what they take.
        saved_bytes: read over the bus less, a batch.
        read_bytes: of a batch without the cache.
        gap: how far below the best possible `saved_bytes` this choice is at most, as a share of it.
    """

    adjacency: np.ndarray
    features: np.ndarray
    adjacency_bytes: int
    feature_bytes: int
    saved_bytes: float
    read_bytes: float
    gap: float


def plan_cache(
    accesses: Accesses, degrees: np.ndarray, *, index_bytes: int, row_bytes: int, budget_bytes: int
) -> CachePlan:
    """Splits a byte budget between adjacency and features by expected accesses per byte (DUCATI's two caches).

    Both kinds of rows compete in one list, by bytes saved on the bus a batch per byte kept. Every edge
    drawn is a read of its own, of a whole sector. Taking the best ratios first is best possible but for
    the row that would fill what is left; rows that still fit are taken after it.

    Args:
        degrees: [N] in-neighbours of each vertex.
        index_bytes: of one in-neighbour's id.
        row_bytes: of one feature row.
        budget_bytes: that both may take together.
    """
    num_vertices = len(degrees)
    read_bytes = _in_sectors(row_bytes)
    gains = np.concatenate([accesses.edge_reads * SECTOR_BYTES, accesses.feature_reads * read_bytes]).astype(np.float64)
    gains /= accesses.num_batches
    sizes = np.concatenate([degrees * index_bytes, np.full(num_vertices, row_bytes)]).astype(np.int64)
    worth = np.flatnonzero((gains > 0) & (sizes > 0))
    order = worth[np.argsort(-gains[worth] / sizes[worth], kind="stable")]
    taken, bound = _fill(gains[order], sizes[order], budget_bytes)
    chosen = np.sort(order[taken])
    adjacency, features = chosen[chosen < num_vertices], chosen[chosen >= num_vertices] - num_vertices
    saved = float(gains[chosen].sum())
    return CachePlan(
        adjacency=adjacency,
        features=features,
        adjacency_bytes=int(sizes[adjacency].sum()),
        feature_bytes=len(features) * row_bytes,
        saved_bytes=saved,
        read_bytes=float(gains.sum()),
        gap=1 - saved / bound if bound else 0.0,
    )


def _in_sectors(num_bytes: int) -> int:
    return -(-num_bytes // SECTOR_BYTES) * SECTOR_BYTES


def _fill(gains: np.ndarray, sizes: np.ndarray, budget_bytes: int) -> tuple[np.ndarray, float]:
    """Which of the items, best ratio first, are taken; and what no choice can exceed (the fractional knapsack)."""
    ends = np.cumsum(sizes)
    num_whole = int(np.searchsorted(ends, budget_bytes, side="right"))
    taken = np.arange(len(sizes)) < num_whole
    left = budget_bytes - (int(ends[num_whole - 1]) if num_whole else 0)
    bound = float(gains[:num_whole].sum())
    if num_whole < len(sizes):
        bound += float(gains[num_whole]) * left / float(sizes[num_whole])
    least = int(sizes[num_whole:].min(initial=budget_bytes + 1))
    for item in range(num_whole, len(sizes)):
        if left < least:
            break
        if sizes[item] <= left:
            taken[item] = True
            left -= int(sizes[item])
    return taken, bound
