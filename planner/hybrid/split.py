"""A split of a worker's dependencies into cached and communicated, and the rows of every level that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import Levels
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood


@dataclass(frozen=True)
class Split:
    """Which rows of its neighbourhood a worker makes itself at each level: its replicas; other halo rows it fetches.

    Shapes: h halo vertices, b beyond, places 0..h + b - 1 as in the neighbourhood.

    Args:
        first: the lowest level at which rows travel.
        num_halo: h.
        is_replica: bool [levels from `first`, h + b].
    """

    first: int
    num_halo: int
    is_replica: np.ndarray

    @property
    def cached(self) -> np.ndarray:
        """bool [levels from `first`, h], the dependencies that are cached."""
        return self.is_replica[:, : self.num_halo]

    def replicas(self, level: int) -> np.ndarray:
        """int64, ascending places of the replicas at a level; none above the last, whose rows only owners make."""
        index = level - self.first
        return np.flatnonzero(self.is_replica[index]) if index < len(self.is_replica) else np.empty(0, np.int64)

    @property
    def anywhere(self) -> np.ndarray:
        """bool [h + b], replicas of any level."""
        return np.logical_or.reduce(self.is_replica, axis=0)

    @property
    def above_first(self) -> np.ndarray:
        """bool [h + b], replicas of a level above the first: what they gather must be at hand."""
        return np.logical_or.reduce(self.is_replica[1:], axis=0)

    def fetched(self, level: int) -> np.ndarray:
        """int64, ascending places of the halo rows that are communicated at a level."""
        return np.flatnonzero(~self.cached[level - self.first])


def make_split(near: Neighbourhood, first: int, cached: np.ndarray) -> Split:
    """The split that caches these dependencies, bool [levels from `first`, h], and nothing else.

    A replica needs what it gathers from beyond the halo as replicas one level below, and where it lies beyond
    the halo itself, its own row there; halo rows are at hand at every level.
    """
    num_levels, num_halo = cached.shape
    is_replica = np.zeros((num_levels, len(near.vertices)), bool)
    num_gathered = np.diff(near.starts)
    for index in reversed(range(num_levels)):
        is_replica[index, :num_halo] = cached[index]
        if index + 1 < num_levels:
            above = is_replica[index + 1]
            is_replica[index, near.gathers[np.repeat(above, num_gathered)]] = True
            is_replica[index, num_halo:] |= above[num_halo:]
    return Split(first, num_halo, is_replica)


@dataclass(frozen=True)
class SplitWork:
    """What a split costs and saves in an epoch whatever the rates, every replica counted once.

    Args:
        vertex_work, edge_work: of all replicas, in dimensions.
        saved_floats: float64 [W], of the rows that need not come from each owner.
        num_bytes: that the replicas hold.
    """

    vertex_work: float
    edge_work: float
    saved_floats: np.ndarray
    num_bytes: float

    def saved_s(self, rates: Rates) -> float:
        """Seconds an epoch saved against communicating everything."""
        computed_s = rates.vertex_s * self.vertex_work + rates.edge_s * self.edge_work
        return float(self.saved_floats @ np.asarray(rates.row_s)) - computed_s

    def added_s(self, other: SplitWork, rates: Rates) -> float:
        """Seconds an epoch of what it makes or fetches more of than `other`, whatever it makes or fetches less of."""
        made_s = rates.vertex_s * max(self.vertex_work - other.vertex_work, 0.0)
        made_s += rates.edge_s * max(self.edge_work - other.edge_work, 0.0)
        fetched = np.maximum(other.saved_floats - self.saved_floats, 0.0)
        return float(fetched @ np.asarray(rates.row_s)) + made_s


def work_of(split: Split, near: Neighbourhood, levels: Levels, num_workers: int) -> SplitWork:
    """Sums over the replicas of a split and over the rows it saves."""
    vertex_work = edge_work = num_bytes = 0.0
    saved_floats = np.zeros(num_workers)
    for level in range(levels.first, levels.count):
        index = level - levels.first
        num_rows = int(split.is_replica[index].sum())
        num_entries = float(near.num_entries[split.is_replica[index]].sum())
        vertex_work += levels.vertex_widths[level] * num_rows
        edge_work += levels.edge_widths[level] * num_entries
        num_bytes += levels.vertex_bytes[level] * num_rows + levels.entry_bytes[level] * num_entries
        owners = near.owner[split.cached[index]]
        saved_floats += levels.row_widths[level] * np.bincount(owners, minlength=num_workers)
    return SplitWork(vertex_work, edge_work, saved_floats, num_bytes)
