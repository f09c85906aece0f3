"""Which halo vertices to prune so that the largest cost is least, by CP-SAT: for some dozens of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.rapa.adjust_halos import adjust_halos
from planner.rapa.linear import LinearCost
from planner.rapa.pairs import HaloPairs

_TICKS = 10**7  # that the largest cost, and the largest influence, are divided into


@dataclass(frozen=True)
class ExactPruning:
    """The best choice found, and a cost that none is below.

    Args:
        kept: bool [K].
        max_cost: of the busiest worker under it.
    """

    kept: np.ndarray
    max_cost: float
    bound: float


@dataclass(frozen=True)
class HeuristicGap:
    """The heuristic beside the optimum under the budget of influence that the heuristic spent."""

    unpruned_max_cost: float
    heuristic_max_cost: float
    optimal_max_cost: float
    bound: float

    @property
    def gap(self) -> float:
        """heuristic / optimum - 1."""
        return self.heuristic_max_cost / self.optimal_max_cost - 1


def heuristic_gap(pairs: HaloPairs, cost: LinearCost, limit_s: float = 10.0) -> HeuristicGap:
    """How far algorithms 2 and 3 are from the optimum; `limit_s` of solving, then the best so far counts."""
    kept = adjust_halos(pairs, cost, lambda worker, loads: True)
    exact = least_max_cost(pairs, cost, kept, limit_s)
    return HeuristicGap(
        unpruned_max_cost=float(cost(pairs.loads(pairs.everything)).max()),
        heuristic_max_cost=float(cost(pairs.loads(kept)).max()),
        optimal_max_cost=exact.max_cost,
        bound=exact.bound,
    )


def least_max_cost(pairs: HaloPairs, cost: LinearCost, known: np.ndarray, limit_s: float = 10.0) -> ExactPruning:
    """Minimises the largest cost over all choices that prune no more influence than a known one.

    Args:
        known: bool [K], kept pairs; returned where nothing better is found.
        limit_s: of solving.
    """
    from ortools.sat.python import cp_model  # takes a third of a second

    largest = float(cost(pairs.loads(pairs.everything)).max())
    tick = largest / _TICKS or 1.0
    model = cp_model.CpModel()
    keep = [model.new_bool_var(f"keep_{number}") for number in range(len(pairs.worker))]
    most = model.new_int_var(0, 2 * _TICKS, "largest_cost")
    for worker in range(pairs.num_workers):
        saved = _kept_cost(pairs, cost, worker)
        terms = [round(float(saved[k]) / tick) * keep[k] for k in np.flatnonzero(saved)]
        model.add(most >= round(float(cost.fixed[worker]) / tick) + sum(terms))
    influence = np.rint(pairs.influence * (_TICKS / max(pairs.influence.max(initial=0.0), 1e-300))).astype(np.int64)
    model.add(sum(int(score) * (1 - kept) for score, kept in zip(influence, keep)) <= int(influence[~known].sum()))
    for variable, is_kept in zip(keep, known):
        model.add_hint(variable, bool(is_kept))
    model.minimize(most)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    choices = [known]
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        choices.append(np.array([solver.boolean_value(variable) for variable in keep], bool))
    maxima = [float(cost(pairs.loads(choice)).max()) for choice in choices]
    best = int(np.argmin(maxima))
    return ExactPruning(choices[best], maxima[best], min(solver.best_objective_bound * tick, maxima[best]))


def _kept_cost(pairs: HaloPairs, cost: LinearCost, worker: int) -> np.ndarray:
    """float64 [K]: what keeping each pair costs one worker, as its receiver or as its sender."""
    received = np.where(pairs.worker == worker, cost.per_edge[worker] * pairs.num_edges + cost.per_received[worker], 0)
    return received + np.where(pairs.owner == worker, cost.per_sent[worker], 0)
