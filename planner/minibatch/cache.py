"""Which rows of the graph and of the features a device keeps, of those that batches read over UVA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

SECTOR_BYTES = 32  # what a GPU reads over the bus at least, however little of it is used
POINTER_BYTES = 8  # of a vertex: where its in-neighbours begin; on the device in any case
START_BYTES = 8  # of every vertex, where any in-neighbours are kept: where its own begin among those
SLOT_BYTES = 4  # of every vertex, where any feature rows are kept: which of those is its own


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
        lookup_bytes: what finding them takes: the pointers of every vertex, and places in what is kept.
        saved_bytes: read over the bus less, a batch, as the presampled ones read.
        read_bytes: of a batch without the cache.
        gap: how far below the best possible `saved_bytes` this choice is at most, as a share of it.
    """

    adjacency: np.ndarray
    features: np.ndarray
    adjacency_bytes: int
    feature_bytes: int
    lookup_bytes: int
    saved_bytes: float
    read_bytes: float
    gap: float

    @property
    def num_bytes(self) -> int:
        """All that lies on the device."""
        return self.adjacency_bytes + self.feature_bytes + self.lookup_bytes


def plan_cache(
    accesses: Accesses,
    degrees: np.ndarray,
    out_degrees: np.ndarray,
    *,
    index_bytes: int,
    row_bytes: int,
    budget_bytes: int,
) -> CachePlan:
    """Splits a byte budget between adjacency and features by expected accesses per byte (DUCATI's two caches).

    Both kinds of rows compete in one list, by bytes saved on the bus a batch per byte kept. Every edge
    drawn is a read of its own, of a whole sector. Taking the best ratios first is best possible but for
    the row that would fill what is left; rows that still fit are taken after it. Keeping rows of a kind has
    a price for every vertex, so either kind alone is tried too.

    Rows that no presampled batch read fill what is left after all: other batches may read them, a vertex
    the sooner the more lists of in-neighbours it is in.

    Args:
        degrees, out_degrees: [N], in-neighbours of each vertex, and vertices whose in-neighbour it is.
        index_bytes: of one in-neighbour's id.
        row_bytes: of one feature row.
        budget_bytes: that all of `CachePlan.num_bytes` may take; with less than the pointers take, nothing is kept.
    """
    num_vertices = len(degrees)
    rows = _rows(accesses, degrees, out_degrees, index_bytes, row_bytes)
    fillings = [
        _fill(rows, kinds, budget_bytes - _lookup_bytes(num_vertices, *kinds))
        for kinds in ((True, True), (False, True), (True, False))
    ]
    best = max(fillings, key=lambda filling: (filling.saved_bytes, filling.hoped_bytes))
    bound = max(filling.bound_bytes for filling in fillings)
    chosen = np.sort(best.chosen)
    adjacency, features = chosen[chosen < num_vertices], chosen[chosen >= num_vertices] - num_vertices
    return CachePlan(
        adjacency=adjacency,
        features=features,
        adjacency_bytes=int(rows.sizes[adjacency].sum()),
        feature_bytes=len(features) * row_bytes,
        lookup_bytes=_lookup_bytes(num_vertices, len(adjacency) > 0, len(features) > 0),
        saved_bytes=best.saved_bytes,
        read_bytes=float(rows.gains.sum()),
        gap=1 - best.saved_bytes / bound if bound else 0.0,
    )


def _lookup_bytes(num_vertices: int, keeps_adjacency: bool, keeps_features: bool) -> int:
    """Pointers have one entry more than there are vertices."""
    a_vertex = POINTER_BYTES + keeps_adjacency * START_BYTES + keeps_features * SLOT_BYTES
    return num_vertices * a_vertex + POINTER_BYTES


@dataclass(frozen=True)
class _Rows:
    """Every vertex's in-neighbours, then every vertex's features: [2N] each.

    Args:
        gains: bytes saved a batch.
        hopes: what stands for that where no batch read the row, else 0.
        order: the most gain per byte first; behind those with gains, the most hope per byte.
    """

    gains: np.ndarray
    hopes: np.ndarray
    sizes: np.ndarray
    order: np.ndarray


@dataclass(frozen=True)
class _Filling:
    """What is kept within a budget.

    Args:
        chosen: of the rows.
        saved_bytes, hoped_bytes: sums of their gains and hopes.
        bound_bytes: what no choice of these kinds can save more than (the fractional knapsack).
    """

    chosen: np.ndarray
    saved_bytes: float
    hoped_bytes: float
    bound_bytes: float


def _rows(accesses: Accesses, degrees: np.ndarray, out_degrees: np.ndarray, index_bytes: int, row_bytes: int) -> _Rows:
    read_bytes = -(-row_bytes // SECTOR_BYTES) * SECTOR_BYTES
    gains = np.concatenate([accesses.edge_reads * SECTOR_BYTES, accesses.feature_reads * read_bytes]).astype(np.float64)
    gains /= accesses.num_batches
    chances = out_degrees + 1.0  # one more for the seed that it may be
    hopes = np.concatenate([chances * SECTOR_BYTES, chances * read_bytes]) * (gains == 0)
    sizes = np.concatenate([degrees * index_bytes, np.full(len(degrees), row_bytes)]).astype(np.int64)
    read, unread = (np.flatnonzero((sizes > 0) & (values > 0)) for values in (gains, hopes))
    by_gain = read[np.argsort(-gains[read] / sizes[read], kind="stable")]
    by_hope = unread[np.argsort(-hopes[unread] / sizes[unread], kind="stable")]
    return _Rows(gains, hopes, sizes, np.concatenate([by_gain, by_hope]))


def _fill(rows: _Rows, kinds: tuple[bool, bool], budget_bytes: int) -> _Filling:
    """Takes, in order, what still fits: of the in-neighbours, of the features, or of both."""
    is_adjacency = rows.order < len(rows.sizes) // 2
    items = rows.order[np.where(is_adjacency, *kinds)]
    gains, sizes = rows.gains[items], rows.sizes[items]
    chosen = items[_take_what_fits(sizes, budget_bytes)]
    ends = np.cumsum(sizes)
    num_whole = int(np.searchsorted(ends, budget_bytes, side="right"))
    bound_bytes = float(gains[:num_whole].sum())
    if num_whole < len(sizes) and budget_bytes > 0:
        rest = budget_bytes - (int(ends[num_whole - 1]) if num_whole else 0)
        bound_bytes += float(gains[num_whole]) * rest / float(sizes[num_whole])
    return _Filling(chosen, float(rows.gains[chosen].sum()), float(rows.hopes[chosen].sum()), bound_bytes)


@njit(cache=True)
def _take_what_fits(sizes, budget_bytes):  # pragma: no cover - compiled
    """Which items are taken, each where it still fits."""
    taken = np.zeros(len(sizes), np.bool_)
    for item in range(len(sizes)):
        if sizes[item] <= budget_bytes:
            taken[item] = True
            budget_bytes -= sizes[item]
    return taken
