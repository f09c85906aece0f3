"""Every remote dependency of a worker, with what caching it costs and what communication it saves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import NonNegativeFloat

from gnnplan.planner.hybrid.levels import Levels
from gnnplan.planner.hybrid.neighbourhood import HopCounts, Neighbourhood, count_hops, sum_over_hops
from gnnplan.profiles.contract import Contract


class Rates(Contract):
    """How fast a worker is now: seconds an epoch, forward and backward together.

    Args:
        vertex_s: T_v, per vertex and dimension.
        edge_s: T_e, per edge and dimension.
        row_s: T_c, per float of a row communicated with each owner, by the owner's rank.
    """

    vertex_s: NonNegativeFloat
    edge_s: NonNegativeFloat
    row_s: tuple[NonNegativeFloat, ...]


@dataclass(frozen=True)
class Charge:
    """Cost of caching each of n dependencies: work in dimensions, and bytes.

    Args:
        vertex_work, edge_work, num_bytes: float64 [n].
    """

    vertex_work: np.ndarray
    edge_work: np.ndarray
    num_bytes: np.ndarray

    def seconds(self, rates: Rates) -> np.ndarray:
        """float64 [n], of computing in an epoch (NeutronCloud, equation 5)."""
        return rates.vertex_s * self.vertex_work + rates.edge_s * self.edge_work


@dataclass(frozen=True)
class Dependencies:
    """One entry per level and halo vertex, level by level in the halo's order; n in all.

    Args:
        level, owner: int32 [n].
        row_width: float64 [n], floats of the row that need not travel once it is cached.
        alone: the charge where nothing else is cached. Added up it overcharges, for neighbourhoods overlap.
        shared: the charge where every replica is paid in equal parts by all dependencies that need it.
            Added up over any set it is at most what the set costs together.
    """

    level: np.ndarray
    owner: np.ndarray
    row_width: np.ndarray
    alone: Charge
    shared: Charge

    def __len__(self) -> int:
        return len(self.owner)

    def communicated_s(self, rates: Rates) -> np.ndarray:
        """float64 [n], seconds of communicating each (NeutronCloud, equation 7)."""
        return np.asarray(rates.row_s)[self.owner] * self.row_width


def find_dependencies(near: Neighbourhood, levels: Levels) -> Dependencies:
    """Preprocessing: two breadth-first searches per halo vertex, of `near.num_hops`.

    Caching (u, l) makes a replica of u at level l, and for every vertex w found at hop k >= 1 from u beyond
    the halo replicas at the levels from `levels.first` to l - k.
    """
    assert near.num_hops == levels.num_hops, f"{near.num_hops} hops, {levels.num_hops} needed"
    hops = count_hops(near)
    exchanged = range(levels.first, levels.count)
    halo = slice(near.num_halo)
    own = [replicas(levels, level, near.num_entries[halo]) for level in exchanged]
    alone = [work + _beyond(levels, level, hops) for level, work in zip(exchanged, own)]
    shared = [work + _beyond_shared(levels, level, near, hops) for level, work in zip(exchanged, own)]
    return Dependencies(
        level=np.repeat(np.array(exchanged, np.int32), near.num_halo),
        owner=np.tile(near.owner, len(exchanged)),
        row_width=np.repeat(np.array(levels.row_widths[levels.first :], np.float64), near.num_halo),
        alone=_charge(alone),
        shared=_charge(shared),
    )


def _charge(per_level: list[np.ndarray]) -> Charge:
    table = np.concatenate([np.empty((0, 3)), *per_level])
    return Charge(*np.ascontiguousarray(table.T))


def replicas(levels: Levels, level: int, num_entries: np.ndarray) -> np.ndarray:
    """float64 [k, 3]: vertex work, edge work and bytes of one replica of each vertex at a level."""
    return np.stack(
        [
            np.full(len(num_entries), levels.vertex_widths[level], np.float64),
            levels.edge_widths[level] * num_entries.astype(np.float64),
            levels.vertex_bytes[level] + levels.entry_bytes[level] * num_entries.astype(np.float64),
        ],
        axis=1,
    )


def _beyond(levels: Levels, level: int, hops: HopCounts) -> np.ndarray:
    """float64 [h, 3], of all replicas that one at `level` needs beyond the halo."""
    vertex_widths, edge_widths = np.array(levels.vertex_widths), np.array(levels.edge_widths)
    vertex_bytes, entry_bytes = np.array(levels.vertex_bytes), np.array(levels.entry_bytes)
    total = np.zeros((len(hops.num_vertices), 3))
    for hop in range(1, level - levels.first + 1):
        needed = slice(levels.first, level - hop + 1)
        num_vertices, num_edges = hops.num_vertices[:, hop], hops.num_edges[:, hop]
        total[:, 0] += vertex_widths[needed].sum() * num_vertices
        total[:, 1] += edge_widths[needed].sum() * num_edges
        total[:, 2] += vertex_bytes[needed].sum() * num_vertices + entry_bytes[needed].sum() * num_edges
    return total


def _beyond_shared(levels: Levels, level: int, near: Neighbourhood, hops: HopCounts) -> np.ndarray:
    """float64 [h, 3]: like `_beyond`, but of every replica only the part that is left to each who needs it."""
    table = np.zeros((len(near.vertices), near.num_hops + 1, 3))
    upto = np.zeros((len(near.vertices), 3))
    for needed in range(levels.first, level):
        num_sharing = _num_sharing(levels, needed, hops)
        upto += replicas(levels, needed, near.num_entries) / np.maximum(num_sharing, 1)[:, None]
        hop = level - needed
        table[near.num_halo :, hop] = upto[near.num_halo :]
    return sum_over_hops(near, table)


def _num_sharing(levels: Levels, level: int, hops: HopCounts) -> np.ndarray:
    """int64 [n], dependencies that need a vertex's replica at `level`: all from level + hop up to the last."""
    total = np.zeros(len(hops.num_reached_from), np.int64)
    for hop in range(1, levels.count - level):
        total += hops.num_reached_from[:, hop] * (levels.count - level - hop)
    return total
