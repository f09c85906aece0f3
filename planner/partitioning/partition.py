"""Splits the vertices among the workers: by KaMinPar or METIS with target weights, or into contiguous ranges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gnnplan.planner.job_pins import Partitioner
from gnnplan.planner.partitioning.kaminpar import KaMinPar
from gnnplan.planner.partitioning.metis import metis_parts
from gnnplan.planner.partitioning.undirected import Undirected, vertex_weights
from gnnplan.profiles.errors import UserError


class Partitioning:
    """A graph that is cut into parts as often as wanted; what a partitioner needs of it is made once.

    A vertex weighs its in-degree + 1: the entries of its row in the aggregation matrix, self loop included.

    Args:
        num_nodes: N.
        edge_index: int32 or int64 [2, E], ids in 0..N-1.
    """

    def __init__(self, num_nodes: int, edge_index: np.ndarray) -> None:
        self.num_nodes, self.edge_index = num_nodes, edge_index

    @cached_property
    def weight(self) -> np.ndarray:
        """int64 [N], of every vertex."""
        return vertex_weights(self.num_nodes, self.edge_index)

    @cached_property
    def _undirected(self) -> Undirected:
        return Undirected.of(self.num_nodes, self.edge_index)

    @cached_property
    def _kaminpar(self) -> KaMinPar:
        return KaMinPar(self._undirected)

    def into(
        self, num_parts: int, method: Partitioner, target_weights: Sequence[float] | None = None, seed: int = 0
    ) -> np.ndarray:
        """Assigns every vertex to a part; no part is empty. Deterministic for a given seed.

        Args:
            num_parts: P.
            method: `kaminpar` and `metis` cut few edges; `ranges` cuts the ids into contiguous ranges.
            target_weights: share of the weight each part should hold [P], scaled to sum to 1 (None: equal).
                A part whose share is 0 gets one vertex, one that few edges lead to.
            seed: of `kaminpar` and `metis`.

        Returns:
            int32 [N], part ids in 0..P-1.
        Raises:
            UserError: more parts than vertices, or target weights that are not P numbers from 0, one above it.
        """
        shares = _shares(self.num_nodes, num_parts, target_weights)
        if num_parts == 1:
            return np.zeros(self.num_nodes, np.int32)
        if num_parts == self.num_nodes:
            return np.arange(self.num_nodes, dtype=np.int32)
        if not shares.all():
            used = np.flatnonzero(shares)
            part = self.into(len(used), method, shares[used].tolist(), seed)
            return _give_one_each(used.astype(np.int32)[part], np.flatnonzero(shares == 0), self.weight)
        if method == "ranges":
            return _cut_ranges(self.weight, shares)
        if method == "metis":
            return _fill_empty_parts(metis_parts(self._undirected, shares, seed), num_parts)
        return _fill_empty_parts(self._kaminpar.parts(shares, seed), num_parts)


def partition(
    num_nodes: int,
    edge_index: np.ndarray,
    num_parts: int,
    method: Partitioner,
    target_weights: Sequence[float] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """`Partitioning(num_nodes, edge_index).into(...)`, for who cuts a graph once."""
    return Partitioning(num_nodes, edge_index).into(num_parts, method, target_weights, seed)


def _shares(num_nodes: int, num_parts: int, target_weights: Sequence[float] | None) -> np.ndarray:
    if num_parts < 1:
        raise UserError(f"partition: num_parts is {num_parts}; make it at least 1")
    if num_parts > num_nodes:
        raise UserError(f"partition: {num_parts} parts for {num_nodes} vertices; use at most {num_nodes} workers")
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


def _give_one_each(part: np.ndarray, empty: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Gives every empty part the lightest vertex left, of the part that has most."""
    for each in empty:
        donor = np.flatnonzero(part == np.bincount(part).argmax())
        part[donor[weight[donor].argmin()]] = each
    return part


def _fill_empty_parts(part: np.ndarray, num_parts: int) -> np.ndarray:
    """Gives every empty part one vertex of the part that has most: partitioners leave some on tiny graphs."""
    sizes = np.bincount(part, minlength=num_parts)
    for empty in np.flatnonzero(sizes == 0):
        donor = int(sizes.argmax())
        part[np.flatnonzero(part == donor)[-1]] = empty
        sizes[donor] -= 1
        sizes[empty] += 1
    return part
