"""What a set of cached dependencies really costs: every replica once, whoever needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from gnnplan.planner.hybrid.dependencies import Dependencies, Rates, replicas
from gnnplan.planner.hybrid.levels import Levels
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood


@dataclass(frozen=True)
class Closure:
    """A directed acyclic graph of replicas: to hold one, all that it requires must be held too.

    Shapes: n dependencies, then r replicas beyond the halo.

    Args:
        num_dependencies: n.
        gain_s: float64 [n + r]: seconds an epoch saved; negative where computing costs more than is saved.
        num_bytes: float64 [n + r].
        starts: int64 [n + r + 1], offsets into `requires`.
        requires: int32; only replicas beyond the halo are required.
    """

    num_dependencies: int
    gain_s: np.ndarray
    num_bytes: np.ndarray
    starts: np.ndarray
    requires: np.ndarray


def build_closure(near: Neighbourhood, levels: Levels, dependencies: Dependencies, rates: Rates) -> Closure:
    """The replicas of a worker: its dependencies in their order, then level by level those beyond the halo.

    Level l of a vertex requires level l - 1 of all it gathers from beyond the halo, and its own.
    """
    exchanged = range(levels.first, levels.count)
    beyond = slice(near.num_halo, None)
    tables = [replicas(levels, level, near.num_entries[: near.num_halo]) for level in exchanged]
    tables += [replicas(levels, level, near.num_entries[beyond]) for level in exchanged[:-1]]
    table = np.concatenate([np.empty((0, 3)), *tables])
    gain_s = -rates.vertex_s * table[:, 0] - rates.edge_s * table[:, 1]
    gain_s[: len(dependencies)] += dependencies.communicated_s(rates)
    counts, requires = _requires(near, len(exchanged), len(dependencies))
    return Closure(
        num_dependencies=len(dependencies),
        gain_s=gain_s,
        num_bytes=table[:, 2].copy(),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        requires=requires.astype(np.int32),
    )


def _requires(near: Neighbourhood, num_levels: int, num_dependencies: int) -> tuple[np.ndarray, np.ndarray]:
    """(how many replicas each one requires [n + r], which)."""
    halo_counts = np.diff(near.starts[: near.num_halo + 1])
    of_halo = near.gathers[: near.starts[near.num_halo]]
    beyond = np.arange(near.num_halo, len(near.vertices))
    # Its own row of the level below stands before those that it gathers.
    of_beyond = np.insert(
        near.gathers[near.starts[near.num_halo] :], near.starts[beyond] - near.starts[near.num_halo], beyond
    )
    beyond_counts = np.diff(near.starts[near.num_halo :]) + 1
    counts, requires = [], []
    for level in range(num_levels):
        shift = num_dependencies + (level - 1) * near.num_beyond - near.num_halo
        counts.append(halo_counts if level else np.zeros_like(halo_counts))
        requires.append(of_halo.astype(np.int64) + shift if level else of_halo[:0])
    for level in range(num_levels - 1):
        shift = num_dependencies + (level - 1) * near.num_beyond - near.num_halo
        counts.append(beyond_counts if level else np.zeros_like(beyond_counts))
        requires.append(of_beyond.astype(np.int64) + shift if level else of_beyond[:0])
    return np.concatenate([np.empty(0, np.int64), *counts]), np.concatenate([np.empty(0, np.int64), *requires])


@dataclass
class Held:
    """A set of replicas that holds all it requires; grows only.

    Args:
        is_held: bool [n + r].
    """

    closure: Closure
    is_held: np.ndarray

    @classmethod
    def of(cls, closure: Closure, dependencies: np.ndarray) -> Held:
        """The dependencies (int64) and all they require."""
        held = cls(closure, np.zeros(len(closure.gain_s), bool))
        _hold(closure.starts, closure.requires, dependencies, held.is_held)
        return held

    @property
    def saved_s(self) -> float:
        """Seconds an epoch saved against communicating everything."""
        return float(self.closure.gain_s[self.is_held].sum())

    @property
    def num_bytes(self) -> float:
        """Bytes held."""
        return float(self.closure.num_bytes[self.is_held].sum())

    @property
    def cached(self) -> np.ndarray:
        """bool [n], which dependencies are cached."""
        return self.is_held[: self.closure.num_dependencies]

    def grow(self, order: np.ndarray, budget_bytes: float) -> Held:
        """Lazy greedy on the true cost: takes in order what gains and fits beside all that is held already.

        Every addition makes those that overlap with it cheaper, never dearer, so what was worth taking stays
        so, and what was not is looked at again until nothing more is taken. One look costs the replicas
        that are not held yet.

        Args:
            order: int64, dependencies to look at, the most promising first.
        """
        closure = self.closure
        grown = Held(closure, self.is_held.copy())
        room = budget_bytes - self.num_bytes
        left = order[~grown.is_held[order]]
        while True:
            room = _take(closure.starts, closure.requires, closure.gain_s, closure.num_bytes, left, grown.is_held, room)
            still_left = left[~grown.is_held[left]]
            if len(still_left) == len(left):
                return grown
            left = still_left


@njit(nogil=True, cache=True)
def _missing(root, starts, requires, is_held, found):  # pragma: no cover - compiled
    """Writes what must be added to hold `root` into `found`, marked as held; how many."""
    if is_held[root]:
        return 0
    is_held[root] = True
    found[0] = root
    num_found, next_one = 1, 0
    while next_one < num_found:
        for edge in range(starts[found[next_one]], starts[found[next_one] + 1]):
            replica = requires[edge]
            if not is_held[replica]:
                is_held[replica] = True
                found[num_found] = replica
                num_found += 1
        next_one += 1
    return num_found


@njit(nogil=True, cache=True)
def _hold(starts, requires, dependencies, is_held):  # pragma: no cover - compiled
    found = np.empty(len(is_held), np.int64)
    for dependency in dependencies:
        _missing(dependency, starts, requires, is_held, found)


@njit(nogil=True, cache=True)
def _take(starts, requires, gain_s, num_bytes, order, is_held, room):  # pragma: no cover - compiled
    """One pass of the greedy; what room is left."""
    found = np.empty(len(is_held), np.int64)
    for dependency in order:
        num_found = _missing(dependency, starts, requires, is_held, found)
        gained_s = needed = 0.0
        for i in range(num_found):
            gained_s += gain_s[found[i]]
            needed += num_bytes[found[i]]
        if gained_s > 0 and needed <= room:
            room -= needed
        else:
            for i in range(num_found):
                is_held[found[i]] = False
    return room
