"""Which shares of the graph are tried: by speed, refined for as long as epochs get shorter, and for fewer workers."""

from __future__ import annotations

from collections.abc import Callable

from gnnplan.planner.job import Balance
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.strategies.balance import NUM_ROUNDS, concentrated_shares, is_balanced, refined_shares
from gnnplan.planner.strategies.trial import Trial

Tried = tuple[float, Trial, FullBatchDecision]
"""A decision with the seconds of its epoch and the trial they were found by."""

OfShares = Callable[[Balance, tuple[float, ...]], list[Tried]]
"""Decisions on the partition of the given shares."""


def epoch_s_of(tried: Tried) -> float:
    """Seconds of the epoch."""
    return tried[0]


def search_shares(pinned: Balance | None, weights: tuple[float, ...], of_shares: OfShares) -> list[Tried]:
    """Decisions on every partition looked at, never empty.

    Args:
        pinned: the one kind of shares to look at (None: all).
        weights: shares to begin with: equal ones where these are pinned, else by speed.
    """
    start: Balance = "equal" if pinned == "equal" else "speed"
    if len(weights) == 1 or pinned in ("equal", "speed"):
        return of_shares(start, weights)
    found = of_shares(start, weights)
    refined = _refined("refined", found, of_shares)
    if pinned == "refined":
        return refined or found
    concentrated = _concentrated(min(found + refined, key=epoch_s_of), of_shares)
    return concentrated if pinned else found + refined + concentrated


def _concentrated(best: Tried, of_shares: OfShares) -> list[Tried]:
    """Shares for those alone who have most where all have some, refined where some are faster than that."""
    best_s, _, decision = best
    found = [e for fewer in concentrated_shares(decision.target_weights) for e in of_shares("concentrated", fewer)]
    if min(map(epoch_s_of, found)) >= best_s:
        return found
    return found + _refined("concentrated", found, of_shares)


def _refined(balance: Balance, found: list[Tried], of_shares: OfShares) -> list[Tried]:
    """Shares with which workers compute alike, and with which they compute and exchange alike."""
    return [entry for ports in (False, True) for entry in _balanced(balance, found, of_shares, ports=ports)]


def _balanced(balance: Balance, found: list[Tried], of_shares: OfShares, *, ports: bool) -> list[Tried]:
    balanced: list[Tried] = []
    best_s, trial, decision = min(found, key=epoch_s_of)
    for _ in range(NUM_ROUNDS):
        busy_s = trial.busy_s(decision.layers, decision.cache, ports=ports)
        if is_balanced([busy for busy, share in zip(busy_s, decision.target_weights) if share]):
            break
        again = of_shares(balance, refined_shares(decision.target_weights, busy_s))
        epoch_s, trial, decision = min(again, key=epoch_s_of)
        balanced += again
        if epoch_s >= best_s:
            break
        best_s = epoch_s
    return balanced
