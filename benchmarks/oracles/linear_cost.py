"""Costs that are linear in the halo: the paper's own, and any other around a point, for exact solving."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.techniques.pruning.adjust_halos import Cost
from gnnplan.planner.techniques.pruning.pairs import Loads
from gnnplan.planner.techniques.pruning.seconds import SecondsCost


@dataclass(frozen=True)
class LinearCost:
    """lambda_i = fixed_i + per_edge_i * remote edges + per_received_i * halo rows + per_sent_i * rows sent.

    Args:
        fixed, per_edge, per_received, per_sent: float64 [W]; the last three are not negative.
    """

    fixed: np.ndarray
    per_edge: np.ndarray
    per_received: np.ndarray
    per_sent: np.ndarray

    def __call__(self, loads: Loads) -> np.ndarray:
        """lambda [W]."""
        received, sent = loads.send_counts.sum(0), loads.send_counts.sum(1)
        edges = self.per_edge * loads.remote_edges
        return self.fixed + edges + self.per_received * received + self.per_sent * sent

    @classmethod
    def through(cls, cost: Cost, loads: Loads) -> LinearCost:
        """The linear cost that equals another one at `loads` and, where that never falls as halos grow, without any.

        Edges are taken away first, then the rows received, then those sent: what takes two of them together, as the
        gradients of edges at halo rows do, is counted once, with the first.
        """
        edges, counts = loads.remote_edges, loads.send_counts
        no_edges = np.zeros_like(edges)
        here, rows_only = cost(loads), cost(Loads(no_edges, counts))
        per_received, per_sent = np.zeros(len(here)), np.zeros(len(here))
        for worker in range(len(here)):
            sends = counts.copy()
            sends[:, worker] = 0
            alone = sends.copy()
            alone[worker] = 0
            sends_only, nothing = cost(Loads(no_edges, sends)), cost(Loads(no_edges, alone))
            per_received[worker] = _slope(rows_only, sends_only, counts.sum(0))[worker]
            per_sent[worker] = _slope(sends_only, nothing, counts.sum(1))[worker]
        slopes = (_slope(here, rows_only, edges), per_received, per_sent)
        return cls(here - sum(s * n for s, n in zip(slopes, (edges, counts.sum(0), counts.sum(1)))), *slopes)


def line_of_seconds(cost: SecondsCost) -> LinearCost:
    """The line that equals predicted seconds with whole halos and, where these never fall as halos grow, without any.

    Edges are taken away first there too, though `cost` has them follow from rows.
    """
    whole = cost.pairs.loads(cost.pairs.everything)
    ports = LinearCost.through(cost.communicate_s, whole)
    everything, nothing = cost.pairs.everything, ~cost.pairs.everything
    cycles = [
        cost.sizes.without(received=received, sent=sent)
        for received, sent in ((nothing, nothing), (everything, nothing), (everything, everything))
    ]
    no_edges = replace(cycles[0], blocks=cycles[1].blocks)
    here, rows_only, sends_only, without = (cost.busy_s(each) for each in (cycles[0], no_edges, *cycles[1:]))
    slopes = (
        _slope(here, rows_only, whole.remote_edges),
        _slope(rows_only, sends_only, whole.send_counts.sum(0)) + ports.per_received,
        _slope(sends_only, without, whole.send_counts.sum(1)) + ports.per_sent,
    )
    return LinearCost(without + ports.fixed, *slopes)


def _slope(full: np.ndarray, empty: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """Per unit, where there is any; measured curves that dip count as flat."""
    return np.maximum(full - empty, 0) / np.maximum(extent, 1)
