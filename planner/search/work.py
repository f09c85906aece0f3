"""What an epoch costs a worker at least, by what it has of the graph: something fixed, and a price of every share.

Half the vertices are not half the work: kernels are launched, and a step is taken, however few rows there are. So
bounds by proportion alone are weak where graphs are small or workers are many.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.reduce import rows_of_loss
from gnnplan.planner.readers.cost import sums_s
from gnnplan.planner.readers.scaled import on_columns, on_parts
from gnnplan.planner.readers.schedule import schedule_of

Floats: TypeAlias = NDArray[np.float64]
_ROUNDING = 1e-6  # relative: the engine counts whole nanoseconds, and what is solved is not exact
_SHARES = (0.0, 0.125, 0.25, 0.5, 1.0)
_LEAST_PRICE = 1e-9  # of the largest: workers for whom a share is free need no weights
_NUM_DIGITS = 2  # of a share that prices are the largest for


@dataclass(frozen=True)
class Work:
    """A worker with a share v of the vertices and a share e of the edges computes fixed_s + rows_s v + edges_s e.

    One that has vertices to be trained computes `loss_s` more. All are at least 0, and sustained over many epochs.
    """

    fixed_s: float
    rows_s: float
    edges_s: float
    loss_s: float

    def times(self, factor: float) -> Work:
        """All of it so many times."""
        return Work(*(factor * each for each in (self.fixed_s, self.rows_s, self.edges_s, self.loss_s)))


@dataclass(frozen=True)
class Sampled:
    """Seconds of a candidate of one worker on parts of the graph.

    Args:
        shares: float64 [S, 2], of the vertices and of the edges.
        seconds: float64 [S], without what the loss takes for its vertices.
        loss_s: the least that it takes for any.
    """

    shares: Floats
    seconds: Floats
    loss_s: float

    @classmethod
    def of(cls, candidate: Candidate) -> Sampled:
        """A candidate of one worker, on shares of the vertices with shares of the edges.

        Who has some vertices has the edges that lead to them: no more than if they were those of the most edges, and
        no fewer than of the fewest. What sums over edges may have all of them instead, for a share of the columns.
        """
        cycle = candidate.cycle
        by_rows = {pair: _seconds(candidate, on_parts(cycle, *pair)) for pair in _pairs(candidate)}
        by_columns_s = {share: _sums_s(candidate, on_columns(cycle, share)) for share in _SHARES if share}
        least_rows, others_s = min(by_rows), {pair[0]: each[0] for pair, each in by_rows.items()}
        overhead_s = _seconds(candidate, on_parts(cycle, *least_rows))[2]  # of a loss that has no vertices
        found = {pair: each[0] + each[1] + overhead_s for pair, each in by_rows.items()}
        for (rows, rest_s), (columns, sum_s) in product(others_s.items(), by_columns_s.items()):
            sliced_s = rest_s + sum_s + overhead_s
            found[rows, columns] = min(found.get((rows, columns), sliced_s), sliced_s)
        of_one_s = _seconds(candidate, on_parts(cycle, _least_trained(cycle), 0.0))[2]
        least_s = min(of_one_s, by_rows[1.0, 1.0][2])
        shares, seconds = np.array(list(found)), np.array(list(found.values()))
        return cls(shares, seconds, max(least_s - overhead_s, 0.0))

    def work(self, share: float) -> Work:
        """Prices that no sampled part costs less than, largest where a worker has this share of both."""
        from scipy.optimize import linprog  # it takes a third of a second to import, and few commands come here

        rows, edges = self.shares.T
        unit_s = float(self.seconds.max())  # solvers have absolute tolerances
        found = linprog(
            [-1.0, -share, -share],
            A_ub=np.column_stack([np.ones(len(rows)), rows, edges]),
            b_ub=self.seconds / unit_s,
            bounds=[(0, None)] * 3,
        )
        assert found.status == 0, found.message
        fixed_s, rows_s, edges_s = (unit_s * float(each) for each in found.x)
        return Work(fixed_s, rows_s, edges_s, self.loss_s)


def _seconds(candidate: Candidate, cycle: Cycle) -> tuple[float, float, float]:
    """Of an epoch: what neither sums over edges nor is the loss, what sums over edges, and the loss."""
    found, place = [0.0, 0.0, 0.0], candidate.setting.placement
    for name, share in candidate.shares.items():
        by_key = {op.key: op for op in cycle.programs[name]}
        for task in schedule_of(cycle, name, place, candidate.setting.costs).tasks:
            op = by_key[task.key]
            found[2 if op.kind == "loss" else int("block" in op.attributes)] += share * task.seconds
    return found[0], found[1], found[2]


def _sums_s(candidate: Candidate, cycle: Cycle) -> float:
    """Of an epoch: what sums over edges."""
    placement, costs = candidate.setting.placement, candidate.setting.costs
    of_programs = ((sums_s(cycle, name, 0, placement, costs), share) for name, share in candidate.shares.items())
    return sum(share * sum(by_key.values()) for by_key, share in of_programs)


def _pairs(candidate: Candidate) -> Iterator[tuple[float, float]]:
    """Shares of the vertices and of the edges that a worker may have."""
    degrees = np.sort(np.diff(candidate.setting.matrix.indptr))
    least = np.concatenate([[0], np.cumsum(degrees)]) / max(degrees.sum(), 1)
    for rows in _SHARES:
        count = max(round(rows * len(degrees)), 1)
        low, high = float(least[count]), float(1 - least[len(degrees) - count])
        yield from ((rows, share) for share in dict.fromkeys((low, min(max(rows, low), high), high)))


def _least_trained(cycle: Cycle) -> float:
    """The share of the graph in which one vertex is trained (0: none is)."""
    losses = (op for op in cycle.operators_of_epochs() if op.kind == "loss")
    counts = [rows_of_loss(cycle, op)[0] for op in losses]
    return 1 / max(counts) if any(counts) else 0.0


@dataclass(frozen=True)
class SharedWork:
    """The least that one of some workers computes in an epoch, however they share out the graph.

    Args:
        alone: by profile, candidates of one such worker that has all of the graph.
    """

    alone: Mapping[str, Sequence[Candidate]]

    @cached_property
    def _sampled(self) -> dict[str, dict[Hashable, Sampled]]:
        """By profile and choices."""
        return {
            profile: {tuple(choice.key for choice in each.choices): Sampled.of(each) for each in candidates}
            for profile, candidates in self.alone.items()
        }

    @cached_property
    def _works(self) -> dict[tuple[str, float], dict[Hashable, Work]]:
        return {}

    def seconds(self, profiles: Sequence[str], rates_s: Sequence[float], of_time: Sequence[float]) -> float:
        """Of workers of these profiles; all make the same choices.

        Args:
            rates_s: seconds in which each would work through the graph, by which prices are weighed.
            of_time: by worker, what share of its sustained seconds counts.
        """
        shares = (1 / np.array(rates_s)) / (1 / np.array(rates_s)).sum()
        of_worker = [
            {choices: work.times(share) for choices, work in self._of(*each).items()}
            for *each, share in zip(profiles, shares, of_time, strict=True)
        ]
        return min(together_s(works) for works in _alike(of_worker)) * (1 - _ROUNDING)

    def _of(self, profile: str, share: float) -> dict[Hashable, Work]:
        key = profile, round(share, _NUM_DIGITS)
        if key not in self._works:
            self._works[key] = {choices: each.work(key[1]) for choices, each in self._sampled[profile].items()}
        return self._works[key]


def _alike(of_worker: Sequence[Mapping[Hashable, Work]]) -> Iterator[list[Work]]:
    """By choices, what they cost every worker; where a worker's are not known, the least of all that are."""
    least = {id(each): _least(each.values()) for each in of_worker}
    for choices in dict.fromkeys(key for each in of_worker for key in each):
        yield [each.get(choices, least[id(each)]) for each in of_worker]


def _least(works: Iterable[Work]) -> Work:
    parts = zip(*((work.fixed_s, work.rows_s, work.edges_s, work.loss_s) for work in works), strict=True)
    return Work(*(min(part) for part in parts))


def together_s(works: Sequence[Work]) -> float:
    """Workers share out a graph, and one of them computes no less than this.

    Proof. The slowest takes no less than any weighted mean of all, with weights w that sum up to 1. Shares sum up to 1
    too. So it is at least sum(w fixed) + sum(w rows v) + sum(w edges e) >= sum(w fixed) + min(w rows) + min(w edges),
    and min(w loss) more, for somebody has the vertices that are trained. Besides, whoever has them takes its fixed
    seconds and the loss's.
    """
    fixed, rows, edges, loss = np.array([[w.fixed_s, w.rows_s, w.edges_s, w.loss_s] for w in works]).T
    found = [float((fixed + loss).min()), float(fixed.max())]
    for weights in _weights([rows + edges, rows, edges, np.ones(len(works))]):
        least = (float((weights * each).min()) for each in (rows, edges, loss))
        found.append(float(weights @ fixed) + sum(least))
    return max(found)


def _weights(prices: Iterable[Floats]) -> Iterator[Floats]:
    """Weights by which a share costs all workers the same."""
    for each in prices:
        if each.min() > _LEAST_PRICE * each.max():
            weights = each.min() / each
            yield weights / weights.sum()
