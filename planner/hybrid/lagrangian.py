"""The most that any set of replicas within the budget can save: minimum cuts under a price per byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.hybrid.closure import Closure, Held

_MAX_CUTS = 30
_TICKS = 2.0**50  # that the sum of all gains is divided into: capacities are integers
_CLOSE = 1e-6


@dataclass(frozen=True)
class Relaxed:
    """The Lagrangian dual of caching within a budget.

    Args:
        bound_s: nothing within the budget saves more; at most 1e-6 above the linear programme's optimum, or
            `num_cuts` is the most allowed.
        held: the most valuable set met that keeps the budget.
        num_cuts: minimum cuts taken.
    """

    bound_s: float
    held: Held
    num_cuts: int


def relax(closure: Closure, budget_bytes: float) -> Relaxed:
    """Minimises mu C + max over closed sets of sum(gain - mu bytes) over prices mu >= 0.

    At a price the best closed set is a minimum cut (Picard 1976), so the least dual is the linear
    programme's optimum. The dual is convex and piecewise linear: each next price is where the lines of the
    last set above and the last below the budget meet, and it is no less than there.
    """
    above, bound_s = best_closed_set(closure, 0.0)
    below = Held(closure, np.zeros(len(closure.gain_s), bool))
    if above.num_bytes <= budget_bytes:
        return Relaxed(max(bound_s, above.saved_s), above, 1)
    num_cuts = 1
    while num_cuts < _MAX_CUTS:
        price_s = (above.saved_s - below.saved_s) / (above.num_bytes - below.num_bytes)
        if price_s <= 0:
            break
        num_cuts += 1
        middle, value_s = best_closed_set(closure, price_s)
        dual_s = value_s + price_s * budget_bytes
        bound_s = min(bound_s, dual_s)
        meeting_s = above.saved_s + price_s * (budget_bytes - above.num_bytes)
        if dual_s <= meeting_s * (1 + _CLOSE):
            break
        if middle.num_bytes > budget_bytes:
            above = middle
        else:
            below = middle
    return Relaxed(max(bound_s, below.saved_s), below, num_cuts)


def best_closed_set(closure: Closure, price_s: float) -> tuple[Held, float]:
    """The set with the greatest gain after `price_s` a byte, and a value that no set exceeds.

    Gains are rounded up and costs down to integers, so the value is never too small.
    """
    from ortools.graph.python import max_flow  # takes a third of a second

    priced_s = closure.gain_s - price_s * closure.num_bytes
    candidates = np.flatnonzero(priced_s[: closure.num_dependencies] > 0)
    involved = np.flatnonzero(Held.of(closure, candidates).is_held)
    if not len(involved):
        return Held(closure, np.zeros(len(priced_s), bool)), 0.0
    tick_s = np.abs(priced_s[involved]).sum() / _TICKS
    ticks = np.ceil(priced_s[involved] / tick_s).astype(np.int64)
    tails, heads = _arcs(closure, involved)
    source, sink = len(involved), len(involved) + 1
    earning = np.flatnonzero(ticks > 0)
    all_ticks = int(ticks[earning].sum())
    flow = max_flow.SimpleMaxFlow()
    for tail, head, capacity in (
        (np.full(len(earning), source), earning, ticks[earning]),
        # All of them, with capacity 0 too: OR-Tools finds no cut where the sink has no arc.
        (np.arange(source), np.full(source, sink), np.maximum(-ticks, 0)),
        (tails, heads, np.full(len(tails), all_ticks + 1)),
    ):
        flow.add_arcs_with_capacity(tail.astype(np.int32), head.astype(np.int32), capacity.astype(np.int64))
    status = flow.solve(source, sink)
    assert status == flow.OPTIMAL, status
    is_held = np.zeros(len(priced_s), bool)
    kept = np.array(flow.get_source_side_min_cut(), np.int64)
    is_held[involved[kept[kept < source]]] = True
    return Held(closure, is_held), (all_ticks - flow.optimal_flow()) * tick_s


def _arcs(closure: Closure, involved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(who, what it requires) among the replicas involved, which require nothing else; numbered by place."""
    number = np.full(len(closure.gain_s), -1, np.int64)
    number[involved] = np.arange(len(involved))
    tails = np.repeat(np.arange(len(closure.gain_s)), np.diff(closure.starts))
    among = number[tails] >= 0
    return number[tails[among]], number[closure.requires[among]]
