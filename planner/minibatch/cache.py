"""Which rows of the graph and of the features a device keeps, of those that batches read over UVA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

SECTOR_BYTES = 32  # what a GPU reads over the bus at least, however little of it is used
POINTER_BYTES = 8  # of a vertex: where its in-neighbours begin; on the device first of all
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
class Sizes:
    """Bytes of what a batch reads of a vertex or an edge; over the bus each of them comes in whole sectors.

    Args:
        index: id of an in-neighbour.
        row: of the features that may be kept; 0 where none may.
        edge_id: of an edge; 0 where that is its position. Kept beside the in-neighbour, or not at all.
        other_rows, other_edges: of each other attribute with an entry a vertex, and an edge; never kept.
    """

    index: int
    row: int
    edge_id: int = 0
    other_rows: tuple[int, ...] = ()
    other_edges: tuple[int, ...] = ()

    @property
    def read_of_edge(self) -> int:
        """Over the bus, of each edge drawn that is not kept."""
        return _in_sectors(self.index, self.edge_id)

    @property
    def read_of_row(self) -> int:
        """Over the bus, of each feature row that is not kept."""
        return _in_sectors(self.row)

    def read_bytes(self, accesses: Accesses) -> float:
        """Of a batch without a cache."""
        of_edge = self.read_of_edge + _in_sectors(*self.other_edges)
        of_vertex = self.read_of_row + _in_sectors(*self.other_rows)
        num_bytes = int(accesses.edge_reads.sum()) * of_edge + int(accesses.feature_reads.sum()) * of_vertex
        return num_bytes / accesses.num_batches


def _in_sectors(*sizes: int) -> int:
    return sum(-(-size // SECTOR_BYTES) * SECTOR_BYTES for size in sizes)


@dataclass(frozen=True)
class CachePlan:
    """Vertices whose in-neighbours, and vertices whose features, lie on the device.

    Args:
        adjacency, features: int64 [a] and [f], ascending.
        adjacency_bytes, feature_bytes: what they take.
        lookup_bytes: what finding them takes: the pointers of every vertex, and places in what is kept; 0 where not
            even the pointers fit: nothing is kept, and they are read from host memory too.
        saved_bytes: read over the bus less, a batch, as the presampled ones read.
        read_bytes: of a batch without the cache, all that it reads.
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

    @property
    def keeps_pointers(self) -> bool:
        """Whether every vertex's pointer lies on the device."""
        return self.lookup_bytes > 0

    def saved_share(self, accesses: Accesses, sizes: Sizes) -> float:
        """Of what a batch reads over the bus, where batches read so: others than the cache was planned from, too."""
        edges, rows = accesses.edge_reads[self.adjacency].sum(), accesses.feature_reads[self.features].sum()
        saved_bytes = int(edges) * sizes.read_of_edge + int(rows) * sizes.read_of_row
        return saved_bytes / accesses.num_batches / sizes.read_bytes(accesses)


def plan_cache(
    accesses: Accesses, degrees: np.ndarray, out_degrees: np.ndarray, sizes: Sizes, *, budget_bytes: int
) -> CachePlan:
    """Splits a byte budget between adjacency and features by expected accesses per byte (DUCATI's two caches).

    Both kinds of rows compete in one list, by bytes saved on the bus a batch per byte kept. Every edge
    drawn is a read of its own, of a whole sector, and its id another. Taking the best ratios first is best
    possible but for the row that would fill what is left; rows that still fit are taken after it. Keeping rows
    of a kind has a price for every vertex, so either kind alone is tried too.

    Rows that no presampled batch read fill what is left after all: other batches may read them, a vertex
    the sooner the more lists of in-neighbours it is in.

    Args:
        degrees, out_degrees: [N], in-neighbours of each vertex, and vertices whose in-neighbour it is.
        budget_bytes: that all of `CachePlan.num_bytes` may take; with less than the pointers take, nothing is kept.
    """
    num_vertices = len(degrees)
    rows = _rows(accesses, degrees, out_degrees, sizes)
    fillings = [
        _fill(rows, kinds, budget_bytes - _lookup_bytes(num_vertices, *kinds))
        for kinds in ((True, True), (False, True), (True, False))
    ]
    best = max(fillings, key=lambda filling: (filling.saved_bytes, filling.hoped_bytes))
    bound = max(filling.bound_bytes for filling in fillings)
    chosen = np.sort(best.chosen)
    adjacency, features = chosen[chosen < num_vertices], chosen[chosen >= num_vertices] - num_vertices
    lookup_bytes = _lookup_bytes(num_vertices, len(adjacency) > 0, len(features) > 0)
    return CachePlan(
        adjacency=adjacency,
        features=features,
        adjacency_bytes=int(rows.sizes[adjacency].sum()),
        feature_bytes=len(features) * sizes.row,
        lookup_bytes=lookup_bytes if lookup_bytes <= budget_bytes else 0,
        saved_bytes=best.saved_bytes,
        read_bytes=sizes.read_bytes(accesses),
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


def _rows(accesses: Accesses, degrees: np.ndarray, out_degrees: np.ndarray, sizes: Sizes) -> _Rows:
    of_edge, of_row = sizes.read_of_edge, sizes.read_of_row
    gains = np.concatenate([accesses.edge_reads * of_edge, accesses.feature_reads * of_row]).astype(np.float64)
    gains /= accesses.num_batches
    chances = out_degrees + 1.0  # one more for the seed that it may be
    hopes = np.concatenate([chances * of_edge, chances * of_row]) * (gains == 0)
    lists_bytes = degrees * (sizes.index + sizes.edge_id)
    row_sizes = np.concatenate([lists_bytes, np.full(len(degrees), sizes.row)]).astype(np.int64)
    read, unread = (np.flatnonzero((row_sizes > 0) & (values > 0)) for values in (gains, hopes))
    by_gain = read[np.argsort(-gains[read] / row_sizes[read], kind="stable")]
    by_hope = unread[np.argsort(-hopes[unread] / row_sizes[unread], kind="stable")]
    return _Rows(gains, hopes, row_sizes, np.concatenate([by_gain, by_hope]))


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
