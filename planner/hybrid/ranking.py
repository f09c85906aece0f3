"""Dependencies sorted once, so that what is worth caching is a prefix of every group whatever the weather."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from gnnplan.planner.hybrid.dependencies import Charge, Dependencies, Rates

_CLASSES_PER_DOUBLING = 4


@dataclass(frozen=True)
class Ranking:
    """n dependencies in g groups, the cheapest per float saved first in each.

    A group has one owner, so that T_c only moves the end of its prefix. Where groups also have one level and
    nearly one size, a prefix is sorted by benefit per byte too, at every T_c.

    Args:
        rates: at which it was sorted; only T_e / T_v matters.
        order: int64 [n], dependencies group by group.
        starts: int64 [g + 1], offsets of the groups in it.
        owner: int32 [g].
        row_width: float64 [g], of its first dependency.
        least_bytes, most_bytes: float64 [g].
        cost_s: float64 [n], seconds of computing per float saved, at `rates`; ascending in a group.
        upto_width, upto_vertex_work, upto_edge_work, upto_bytes: float64 [n + 1], running sums.
    """

    rates: Rates
    order: np.ndarray
    starts: np.ndarray
    owner: np.ndarray
    row_width: np.ndarray
    least_bytes: np.ndarray
    most_bytes: np.ndarray
    cost_s: np.ndarray
    upto_width: np.ndarray
    upto_vertex_work: np.ndarray
    upto_edge_work: np.ndarray
    upto_bytes: np.ndarray

    @property
    def num_groups(self) -> int:
        """g."""
        return len(self.owner)

    def scale(self, rates: Rates) -> tuple[float, float]:
        """(low, high): computing costs between low and high times what it did at `self.rates`."""
        pairs = ((rates.vertex_s, self.rates.vertex_s), (rates.edge_s, self.rates.edge_s))
        ratios = [now / then if then else math.inf for now, then in pairs if now or then]
        return (min(ratios), max(ratios)) if ratios else (1.0, 1.0)

    def drift(self, rates: Rates) -> float:
        """How far T_v and T_e have moved out of proportion; 0 where the order is the right one."""
        low, high = self.scale(rates)
        if math.isinf(high):
            return math.inf
        if low == high:
            return 0.0
        return high / low - 1 if low else math.inf

    def sum_of(self, upto: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """float64 [g]: each group's sum over its first `counts` [g] dependencies."""
        return upto[self.starts[:-1] + counts] - upto[self.starts[:-1]]

    def saved_s(self, rates: Rates, counts: np.ndarray) -> float:
        """Seconds an epoch saved against communicating everything, by the charges ranked."""
        communicated_s = np.asarray(rates.row_s)[self.owner] * self.sum_of(self.upto_width, counts)
        vertex_work = self.sum_of(self.upto_vertex_work, counts).sum()
        edge_work = self.sum_of(self.upto_edge_work, counts).sum()
        return float(communicated_s.sum() - rates.vertex_s * vertex_work - rates.edge_s * edge_work)

    def num_bytes(self, counts: np.ndarray) -> float:
        """Bytes held, by the charges ranked."""
        return float(self.sum_of(self.upto_bytes, counts).sum())

    def count_below(self, limit_s: np.ndarray) -> np.ndarray:
        """int64 [g]: how many of each group cost less per float than `limit_s` [g], by binary search."""
        return _count_below(self.starts, self.cost_s, limit_s)

    def chosen(self, counts: np.ndarray) -> np.ndarray:
        """int64, the dependencies of the prefixes, in the order ranked."""
        first = self.starts[:-1]
        return np.concatenate([np.empty(0, np.int64), *(self.order[a : a + k] for a, k in zip(first, counts) if k)])


def rank(
    dependencies: Dependencies, charge: Charge, rates: Rates, budget_bytes: float, *, by_size: bool = True
) -> Ranking:
    """Preprocessing (NeutronCloud, algorithm 2) in O(n log n).

    Leaves out what saves no row and what alone exceeds the budget.

    Args:
        charge: one of the two of `dependencies`.
        by_size: groups by owner, level and size; else by owner only, as the paper has them.
    """
    kept = np.flatnonzero((dependencies.row_width > 0) & (dependencies.alone.num_bytes <= budget_bytes))
    owner, row_width = dependencies.owner[kept], dependencies.row_width[kept]
    vertex_work, edge_work, num_bytes = (
        values[kept] for values in (charge.vertex_work, charge.edge_work, charge.num_bytes)
    )
    cost_s = charge.seconds(rates)[kept] / row_width
    group = owner.astype(np.int64)
    if by_size:
        size = np.floor(_CLASSES_PER_DOUBLING * np.log2(np.maximum(num_bytes, 1))).astype(np.int64)
        level = dependencies.level[kept]
        group = (group * (level.max(initial=0) + 1) + level) * (size.max(initial=0) + 1) + size
    order = np.lexsort((cost_s, group))
    group = group[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))[: len(group)]
    return Ranking(
        rates=rates,
        order=kept[order],
        starts=np.append(starts, len(order)),
        owner=owner[order][starts],
        row_width=row_width[order][starts],
        least_bytes=_of_groups(np.minimum, num_bytes[order], starts),
        most_bytes=_of_groups(np.maximum, num_bytes[order], starts),
        cost_s=cost_s[order],
        upto_width=_running(row_width[order]),
        upto_vertex_work=_running(vertex_work[order]),
        upto_edge_work=_running(edge_work[order]),
        upto_bytes=_running(num_bytes[order]),
    )


def _running(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _of_groups(reduce: np.ufunc, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return reduce.reduceat(values, starts) if len(starts) else np.empty(0)


@njit(nogil=True, cache=True)
def _count_below(starts, cost_s, limit_s):  # pragma: no cover - compiled
    counts = np.empty(len(limit_s), np.int64)
    for group in range(len(limit_s)):
        low, high = starts[group], starts[group + 1]
        while low < high:
            middle = (low + high) // 2
            if cost_s[middle] < limit_s[group]:
                low = middle + 1
            else:
                high = middle
        counts[group] = low - starts[group]
    return counts
