"""Which prefixes of a ranking to cache: all that pays, by the paper's budget shares, or by one price per byte."""

from __future__ import annotations

import numpy as np
from numba import njit

from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.ranking import Ranking

_PRICE_PRECISION = 1e-6  # relative


def paying(ranking: Ranking, rates: Rates, price_s: float = 0.0) -> np.ndarray:
    """int64 [g]: prefixes of all whose benefit is above `price_s` a byte (NeutronCloud, algorithm 3, lines 2 to 6).

    Where T_v and T_e have moved out of proportion computing counts at the higher of the two, so that nothing
    chosen costs more than it saves.
    """
    _, high = ranking.scale(rates)
    return ranking.count_below(_limit_s(ranking, rates, high, price_s, ranking.most_bytes))


def budget_shares(ranking: Ranking, rates: Rates, budget_bytes: float) -> np.ndarray:
    """int64 [g]: the paper's way to keep the budget (algorithm 3, lines 9 to 20): shares in proportion to demand."""
    counts = paying(ranking, rates)
    demand = ranking.sum_of(ranking.upto_bytes, counts)
    if demand.sum() <= budget_bytes:
        return counts
    return _fitting(ranking.starts, ranking.upto_bytes, counts, demand * (budget_bytes / demand.sum()))


def one_price(ranking: Ranking, rates: Rates, budget_bytes: float) -> np.ndarray:
    """int64 [g]: prefixes at the price per byte at which the budget is just kept, then what still fits.

    Takes by benefit per byte over all groups alike, up to the width of a size class, 2^(1/4). If the best
    single dependency is worth more than all of them, it is taken instead, with what fits beside it: this
    saves at least 1 / (2 * 2^(1/4)) of the most possible by the charges ranked.
    """
    top = paying(ranking, rates)
    if ranking.num_bytes(top) <= budget_bytes:
        return top
    low, high = critical_price(ranking, rates, budget_bytes)
    counts = paying(ranking, rates, high)
    for limit in (paying(ranking, rates, low), top):
        counts = _fill(ranking, rates, counts, limit, budget_bytes)
    single = np.zeros_like(top)
    best = _best_first(ranking, rates)
    single[best] = top[best] > 0
    single = _fill(ranking, rates, single, top, budget_bytes)
    return max(counts, single, key=lambda each: ranking.saved_s(rates, each))


def critical_price(ranking: Ranking, rates: Rates, budget_bytes: float) -> tuple[float, float]:
    """(low, high) seconds per byte, close together: what pays at `high` fits the budget, at `low` it does not."""
    low, high = 0.0, _highest_price_s(ranking, rates)
    while high - low > _PRICE_PRECISION * high:
        middle = (low + high) / 2
        if ranking.num_bytes(paying(ranking, rates, middle)) <= budget_bytes:
            high = middle
        else:
            low = middle
    return low, high


def bound_s(ranking: Ranking, rates: Rates, budget_bytes: float) -> float:
    """No set within the budget saves more by the charges ranked: the least of some Lagrangian duals.

    Bisects for the price that minimises it; every dual met is a bound.
    """
    best_s, needed = _dual_s(ranking, rates, budget_bytes, 0.0)
    low, high = 0.0, _highest_price_s(ranking, rates) if needed > budget_bytes else 0.0
    while high - low > _PRICE_PRECISION * high:
        middle = (low + high) / 2
        dual_s, needed = _dual_s(ranking, rates, budget_bytes, middle)
        best_s = min(best_s, dual_s)
        low, high = (low, middle) if needed <= budget_bytes else (middle, high)
    return best_s


def _dual_s(ranking: Ranking, rates: Rates, budget_bytes: float, price_s: float) -> tuple[float, float]:
    """(mu C + sum_i max(0, benefit_i - mu bytes_i) at the price mu, bytes of those that count in it).

    Those whose sign a size class leaves open count at its least bytes. Where T_v and T_e have moved out of
    proportion computing counts at the lower of the two.
    """
    scale, _ = ranking.scale(rates)
    surely = ranking.count_below(_limit_s(ranking, rates, scale, price_s, ranking.most_bytes))
    perhaps = ranking.count_below(_limit_s(ranking, rates, scale, price_s, ranking.least_bytes))
    then = ranking.rates
    cheapest = Rates(vertex_s=then.vertex_s * scale, edge_s=then.edge_s * scale, row_s=rates.row_s)
    needed = ranking.num_bytes(surely) + float(((perhaps - surely) * ranking.least_bytes).sum())
    return ranking.saved_s(cheapest, perhaps) + price_s * (budget_bytes - needed), needed


def _limit_s(ranking: Ranking, rates: Rates, scale: float, price_s: float, num_bytes: np.ndarray) -> np.ndarray:
    """The cost per float, at the rates of sorting, below which a dependency of so many bytes pays."""
    limit_s = np.asarray(rates.row_s)[ranking.owner] - price_s * num_bytes / ranking.row_width
    if scale:
        return limit_s / scale
    return np.where(limit_s > 0, np.inf, 0.0)  # computing has become free


def _highest_price_s(ranking: Ranking, rates: Rates) -> float:
    """Seconds per byte at which nothing pays: twice the most benefit per byte, which rounding does not reach."""
    first_s = ranking.cost_s[ranking.starts[:-1]] * ranking.scale(rates)[0]
    benefit_s = (np.asarray(rates.row_s)[ranking.owner] - first_s) * ranking.row_width
    return 2 * float(np.max(benefit_s / ranking.least_bytes, initial=0.0))


def _best_first(ranking: Ranking, rates: Rates) -> int:
    """The group whose first dependency has the most benefit."""
    first_s = ranking.cost_s[ranking.starts[:-1]] * ranking.scale(rates)[1]
    return int(np.argmax((np.asarray(rates.row_s)[ranking.owner] - first_s) * ranking.row_width))


def _fill(ranking: Ranking, rates: Rates, counts: np.ndarray, limit: np.ndarray, budget_bytes: float) -> np.ndarray:
    """Lengthens prefixes up to `limit` [g] while the budget lasts, the group whose next is the densest first."""
    longer = np.flatnonzero(limit > counts)
    following = ranking.starts[:-1][longer] + counts[longer]
    benefit_s = np.asarray(rates.row_s)[ranking.owner[longer]] - ranking.cost_s[following] * ranking.scale(rates)[1]
    density_s = benefit_s * ranking.row_width[longer] / ranking.least_bytes[longer]
    turn = longer[np.argsort(-density_s, kind="stable")]
    filled = counts.copy()
    _lengthen(ranking.starts, ranking.upto_bytes, turn, filled, limit, budget_bytes - ranking.num_bytes(counts))
    return filled


@njit(nogil=True, cache=True)
def _fit(upto_bytes, start, low, high, room):  # pragma: no cover - compiled
    """The longest prefix, between `low` and `high`, with at most `room` bytes beyond the first `low`."""
    limit = upto_bytes[start + low] + room
    while low < high:
        middle = (low + high + 1) // 2
        if upto_bytes[start + middle] <= limit:
            low = middle
        else:
            high = middle - 1
    return low


@njit(nogil=True, cache=True)
def _fitting(starts, upto_bytes, counts, share_bytes):  # pragma: no cover - compiled
    fitting = np.empty(len(counts), np.int64)
    for group in range(len(counts)):
        fitting[group] = _fit(upto_bytes, starts[group], 0, counts[group], share_bytes[group])
    return fitting


@njit(nogil=True, cache=True)
def _lengthen(starts, upto_bytes, turn, counts, limit, room):  # pragma: no cover - compiled
    for group in turn:
        longer = _fit(upto_bytes, starts[group], counts[group], limit[group], room)
        room -= upto_bytes[starts[group] + longer] - upto_bytes[starts[group] + counts[group]]
        counts[group] = longer
