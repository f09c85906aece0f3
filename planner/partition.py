"""Splits the vertices among the workers: METIS with target weights, or contiguous ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.edges import edge_keys, symmetric_keys
from gnnplan.planner.job import Partitioner
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.counter import splitmix_at

_CHUNK = 1 << 24
_MAX_METIS_SEED = 2**31 - 1
# METIS takes about 150 bytes a neighbour where edges coarsen badly (measured, R-MAT): 12 GB at this many.
_MAX_METIS_NEIGHBOURS = 80_000_000


def partition(
    num_nodes: int,
    edge_index: np.ndarray,
    num_parts: int,
    method: Partitioner,
    target_weights: Sequence[float] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Assigns every vertex to a part; no part is empty. Deterministic for a given seed.

    A vertex weighs its in-degree + 1: the entries of its row in the aggregation matrix, self
    loop included.

    Args:
        num_nodes: N.
        edge_index: int32 or int64 [2, E], ids in 0..N-1.
        num_parts: P.
        method: `metis` minimises the edges cut; `ranges` cuts the ids into contiguous ranges.
            Where both directions of all edges are more than 80 million, METIS sees a random sample
            of that size, to bound its memory. Measured with half the edges kept, it then cuts 3%
            more edges on R-MAT, 9% more on a block model, and 2% instead of 0.1% on a web crawl.
        target_weights: share of the weight each part should hold [P], scaled to sum to 1 (None: equal).
            A part whose share is 0 gets one vertex, one that few edges lead to.
        seed: METIS's.

    Returns:
        int32 [N], part ids in 0..P-1.
    Raises:
        UserError: more parts than vertices, or target weights that are not P numbers from 0, one above it.
    """
    if num_parts < 1:
        raise UserError(f"partition: num_parts is {num_parts}; make it at least 1")
    if num_parts > num_nodes:
        raise UserError(f"partition: {num_parts} parts for {num_nodes} vertices; use at most {num_nodes} workers")
    shares = _shares(num_parts, target_weights)
    if num_parts == 1:
        return np.zeros(num_nodes, np.int32)
    if num_parts == num_nodes:
        return np.arange(num_nodes, dtype=np.int32)
    weight = vertex_weights(num_nodes, edge_index)
    if not shares.all():
        used = np.flatnonzero(shares)
        part = partition(num_nodes, edge_index, len(used), method, shares[used].tolist(), seed)
        return _give_one_each(used.astype(np.int32)[part], np.flatnonzero(shares == 0), weight)
    if method == "ranges":
        return _cut_ranges(weight, shares)
    return _fill_empty_parts(_metis(num_nodes, edge_index, weight, shares, seed), num_parts)


def vertex_weights(num_nodes: int, edge_index: np.ndarray) -> np.ndarray:
    """int64 [N]: in-degree + 1 of every vertex."""
    weight = np.ones(num_nodes, np.int64)
    # bincount makes an int64 copy of its input: in chunks it stays small.
    for start in range(0, edge_index.shape[1], _CHUNK):
        weight += np.bincount(edge_index[1, start : start + _CHUNK], minlength=num_nodes)
    return weight


def _shares(num_parts: int, target_weights: Sequence[float] | None) -> np.ndarray:
    if target_weights is None:
        return np.full(num_parts, 1 / num_parts)
    shares = np.asarray(target_weights, np.float64)
    if shares.shape != (num_parts,) or not np.isfinite(shares).all() or (shares < 0).any() or not shares.any():
        raise UserError(
            f"partition: target weights {list(target_weights)} given; give {num_parts} numbers, one a part, none "
            f"below 0 and one above it"
        )
    return shares / shares.sum()


def _cut_ranges(weight: np.ndarray, shares: np.ndarray) -> np.ndarray:
    num_nodes, num_parts = len(weight), len(shares)
    upto = np.cumsum(weight)
    wanted = np.cumsum(shares[:-1]) * upto[-1]
    # The cut goes before the first vertex whose middle lies past the wanted weight: the nearest one.
    cuts = np.searchsorted(upto - weight / 2, wanted)
    step = np.arange(1, num_parts)
    cuts = np.maximum.accumulate(np.maximum(cuts, step) - step) + step
    cuts = np.minimum(cuts, num_nodes - num_parts + step)
    sizes = np.diff(np.concatenate([[0], cuts, [num_nodes]]))
    return np.repeat(np.arange(num_parts, dtype=np.int32), sizes)


def _metis(num_nodes: int, edge_index: np.ndarray, weight: np.ndarray, shares: np.ndarray, seed: int) -> np.ndarray:
    import pymetis  # a compiled library that only this function needs

    starts, adjacent = _undirected_csr(num_nodes, edge_index, _MAX_METIS_NEIGHBOURS)
    # One constraint, in-degree + 1 a vertex (the binding takes no second one). Measured on R-MAT with
    # 200k vertices, 4M edges, 4 parts: with vertices of weight 1 the heaviest part holds 2.58 times the
    # mean of the edges, with in-degree + 1 1.03. Random matching (ctype 0) keeps vertices even too:
    # 1.07 times the mean, against 1.45 with METIS's own sorted heavy-edge matching, at the same cut.
    options = pymetis.Options(seed=seed % _MAX_METIS_SEED, ctype=0)
    result = pymetis.part_graph(
        len(shares),
        pymetis.CSRAdjacency(starts, adjacent),
        vweights=weight,
        tpwgts=shares.tolist(),
        recursive=False,
        options=options,
    )
    return np.array(result.vertex_part, np.int32)


def _undirected_csr(num_nodes: int, edge_index: np.ndarray, max_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 (METIS's own width) row starts [N + 1] and neighbours: symmetric, distinct, no self loops.

    Past `max_neighbours` a random sample of the pairs is kept.
    """
    keys = symmetric_keys(num_nodes, edge_index, drop_self_loops=True)
    if len(keys) > max_neighbours:
        keys = _sample_pairs(num_nodes, keys, max_neighbours / len(keys))
    starts = np.searchsorted(keys, np.arange(num_nodes + 1, dtype=np.int64) * num_nodes)
    for start in range(0, len(keys), _CHUNK):
        keys[start : start + _CHUNK] %= num_nodes
    return starts.astype(np.int64), keys


def _sample_pairs(num_nodes: int, keys: np.ndarray, share: float) -> np.ndarray:
    """Keeps about this share of the pairs, both directions or none: the choice is a hash of the pair."""
    threshold = np.uint64(int(share * 2**64))
    kept = []
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        u, v = np.divmod(chunk, num_nodes)
        pair = edge_keys(num_nodes, np.minimum(u, v), np.maximum(u, v)).view(np.uint64)
        mixed = splitmix_at(pair, np.uint64(0))
        kept.append(chunk[mixed < threshold])
    return np.concatenate(kept)


def _give_one_each(part: np.ndarray, empty: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Gives every empty part the lightest vertex left, of the part that has most."""
    for each in empty:
        donor = np.flatnonzero(part == np.bincount(part).argmax())
        part[donor[weight[donor].argmin()]] = each
    return part


def _fill_empty_parts(part: np.ndarray, num_parts: int) -> np.ndarray:
    """Gives every empty part one vertex of the part that has most: METIS leaves some on tiny graphs."""
    sizes = np.bincount(part, minlength=num_parts)
    for empty in np.flatnonzero(sizes == 0):
        donor = int(sizes.argmax())
        part[np.flatnonzero(part == donor)[-1]] = empty
        sizes[donor] -= 1
        sizes[empty] += 1
    return part
