"""Which halo vertices to prune for the least largest cost, or for the least influence, by CP-SAT: some dozens of them.

Of equation 15 the largest cost counts alone: its term for the spread, the bound on it and memory are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.techniques.pruning.adjust_halos import adjust_halos
from gnnplan.planner.techniques.pruning.pairs import HaloPairs, Loads
from gnnplan.planner.techniques.pruning.restore import restore

_TICKS = 10**7  # that the largest cost, and the largest influence, are divided into


@dataclass(frozen=True)
class ExactPruning:
    """The best choice found, and what none is below.

    Args:
        kept: bool [K].
        value: what was minimised, under it: the cost of the busiest worker, or the influence pruned.
    """

    kept: np.ndarray
    value: float
    bound: float


@dataclass(frozen=True)
class HeuristicGap:
    """The heuristic beside the optimum, both ways.

    Args:
        optimal_max_cost: the least with no more influence pruned than the heuristic pruned; none is below its `bound`.
        heuristic_influence: what the heuristic pruned, as a share of all halos' influence.
        paper_influence: the same before what was pruned for nothing was restored.
        least_influence: the least that makes the largest cost as small as the heuristic's.
    """

    unpruned_max_cost: float
    heuristic_max_cost: float
    optimal_max_cost: float
    bound: float
    heuristic_influence: float
    paper_influence: float
    least_influence: float
    least_influence_bound: float

    @property
    def gap(self) -> float:
        """heuristic / optimum - 1."""
        return self.heuristic_max_cost / self.optimal_max_cost - 1


def heuristic_gap(pairs: HaloPairs, cost: LinearCost, limit_s: float = 10.0) -> HeuristicGap:
    """How far the planner's choice is from the optimum; `limit_s` of solving each, then the best so far counts."""

    def fits(worker: int, loads: Loads) -> bool:
        return True

    papers = adjust_halos(pairs, cost, fits)
    kept = restore(pairs, cost, fits, papers)
    exact, sparing = (solve(pairs, cost, kept, limit_s) for solve in (least_max_cost, least_influence))
    everything = max(float(pairs.influence.sum()), 1e-300)
    return HeuristicGap(
        unpruned_max_cost=float(cost(pairs.loads(pairs.everything)).max()),
        heuristic_max_cost=float(cost(pairs.loads(kept)).max()),
        optimal_max_cost=exact.value,
        bound=exact.bound,
        heuristic_influence=_influence(pairs, kept) / everything,
        paper_influence=_influence(pairs, papers) / everything,
        least_influence=sparing.value / everything,
        least_influence_bound=sparing.bound / everything,
    )


def least_max_cost(pairs: HaloPairs, cost: LinearCost, known: np.ndarray, limit_s: float = 10.0) -> ExactPruning:
    """Minimises the largest cost over all choices that prune no more influence than a known one.

    Args:
        known: bool [K], kept pairs; returned where nothing better is found.
        limit_s: of solving.
    """
    case = _Case(pairs, cost, known)
    most = case.model.new_int_var(0, 2 * _TICKS, "largest_cost")
    for worker in range(pairs.num_workers):
        case.model.add(most >= case.cost_of(worker))
    case.model.add(case.pruned_influence() <= int(case.influence[~known].sum()))
    found, bound = case.minimise(most, limit_s)
    choices = [known, *found]
    maxima = [float(cost(pairs.loads(choice)).max()) for choice in choices]
    best = int(np.argmin(maxima))
    return ExactPruning(choices[best], maxima[best], min(bound * case.tick, maxima[best]))


def least_influence(pairs: HaloPairs, cost: LinearCost, known: np.ndarray, limit_s: float = 10.0) -> ExactPruning:
    """Minimises the influence pruned over all choices whose largest cost is no larger than a known one's.

    Args:
        known: bool [K], kept pairs; returned where nothing better is found.
        limit_s: of solving.
    """
    case, highest = _Case(pairs, cost, known), float(cost(pairs.loads(known)).max())
    rounding = len(pairs.worker) + 1  # ticks, what sums of rounded costs may differ by
    limit = max(case.ticks_of(worker, known) for worker in range(pairs.num_workers)) + rounding
    for worker in range(pairs.num_workers):
        case.model.add(case.cost_of(worker) <= limit)
    least = case.model.new_int_var(0, int(case.influence.sum()), "least_influence")
    case.model.add(least >= case.pruned_influence())
    found, bound = case.minimise(least, limit_s)
    allowed = [each for each in found if cost(pairs.loads(each)).max() <= highest + 2 * rounding * case.tick]
    best = min([known, *allowed], key=lambda choice: _influence(pairs, choice))
    value = _influence(pairs, best)
    return ExactPruning(best, value, min(bound * case.unit, value))


def _influence(pairs: HaloPairs, kept: np.ndarray) -> float:
    """That of what is pruned."""
    return float(pairs.influence[~kept].sum())


class _Case:
    """The choices of a halo as a model of integers: costs in ticks, influence in units."""

    def __init__(self, pairs: HaloPairs, cost: LinearCost, known: np.ndarray) -> None:
        from ortools.sat.python import cp_model  # takes a third of a second

        self._cp_model, self.model = cp_model, cp_model.CpModel()
        self.tick = float(cost(pairs.loads(pairs.everything)).max()) / _TICKS or 1.0
        self.unit = max(float(pairs.influence.max(initial=0.0)), 1e-300) / _TICKS
        self.influence = np.rint(pairs.influence / self.unit).astype(np.int64)
        self._fixed = [round(float(fixed) / self.tick) for fixed in cost.fixed]
        self._saved = [_saved_ticks(pairs, cost, worker, self.tick) for worker in range(pairs.num_workers)]
        self._keep = [self.model.new_bool_var(f"keep_{number}") for number in range(len(pairs.worker))]
        for variable, is_kept in zip(self._keep, known):
            self.model.add_hint(variable, bool(is_kept))

    def cost_of(self, worker: int) -> Any:
        """lambda of a worker in ticks, as an expression."""
        saved = self._saved[worker]
        return self._fixed[worker] + sum(int(saved[k]) * self._keep[k] for k in np.flatnonzero(saved))

    def ticks_of(self, worker: int, kept: np.ndarray) -> int:
        """lambda of a worker in ticks, for one choice."""
        return self._fixed[worker] + int(self._saved[worker][kept].sum())

    def pruned_influence(self) -> Any:
        """In units, as an expression."""
        return sum(int(score) * (1 - kept) for score, kept in zip(self.influence, self._keep))

    def minimise(self, value: Any, limit_s: float) -> tuple[list[np.ndarray], float]:
        """([the choice found, bool [K]] or nothing, a bound of the value)."""
        self.model.minimize(value)
        solver = self._cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = limit_s
        if solver.solve(self.model) not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            return [], solver.best_objective_bound
        return [np.array([solver.boolean_value(kept) for kept in self._keep], bool)], solver.best_objective_bound


def _saved_ticks(pairs: HaloPairs, cost: LinearCost, worker: int, tick: float) -> np.ndarray:
    """int64 [K]: what keeping each pair costs one worker, as its receiver or as its sender."""
    received = np.where(pairs.worker == worker, cost.per_edge[worker] * pairs.num_edges + cost.per_received[worker], 0)
    return np.rint((received + np.where(pairs.owner == worker, cost.per_sent[worker], 0)) / tick).astype(np.int64)
