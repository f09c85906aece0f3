"""What RAPA prunes of a candidate, and what that does to the workers' costs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.techniques.pruning.adjust_halos import Cost, Fits, adjust_halos
from gnnplan.planner.techniques.pruning.cut_edges import CutEdges
from gnnplan.planner.techniques.pruning.pairs import HaloPairs
from gnnplan.planner.techniques.pruning.restore import restore
from gnnplan.planner.techniques.pruning.seconds import SecondsCost
from gnnplan.planner.techniques.pruning.sizes import HaloSizes


@dataclass(frozen=True)
class Pruning:
    """A choice among the halo vertices of a candidate.

    Args:
        pairs: all of them.
        kept: bool [K].
        num_entries: of the whole aggregation matrix.
        before_s, after_s: lambda [W], predicted seconds an epoch.
    """

    pairs: HaloPairs
    kept: np.ndarray
    num_entries: int
    before_s: np.ndarray
    after_s: np.ndarray

    @property
    def vertex_share(self) -> float:
        """Of all halo vertices, those pruned."""
        return float((~self.kept).sum() / max(len(self.kept), 1))

    @property
    def num_edges(self) -> int:
        """Entries of the aggregation matrix that are pruned."""
        return int(self.pairs.num_edges[~self.kept].sum())

    @property
    def edge_share(self) -> float:
        """Of the aggregation matrix, the entries that are pruned."""
        return self.num_edges / max(self.num_entries, 1)

    @property
    def influence_share(self) -> float:
        """Of the halos' influence, that pruned."""
        influence = self.pairs.influence
        return float(influence[~self.kept].sum() / max(influence.sum(), 1e-300))


def prune_halos(candidate: Candidate) -> Pruning:
    """What algorithms 2 and 3 prune of a candidate with arrays by its predicted seconds; its halos are still whole."""
    cost = cost_of(candidate)
    return pruned_by(candidate, cost, cost)


def cost_of(candidate: Candidate) -> SecondsCost:
    """Predicted seconds of a candidate with arrays and whole halos."""
    setting, part = candidate.setting, owners_of(candidate)

    def cut_along() -> tuple[CutEdges, HaloPairs]:
        cut = CutEdges.of(setting.matrix, part)
        return cut, HaloPairs.of_cut(setting.graph, cut, part, setting.num_workers)

    key = "cut edges", setting.num_workers, hashlib.sha256(part.data).digest()
    cut, pairs = setting.memo.cut(key, cut_along)
    return SecondsCost(candidate, pairs, HaloSizes.of(candidate.cycle, cut))


def pruned_by(candidate: Candidate, seconds: SecondsCost, cost: Cost) -> Pruning:
    """What the algorithms prune of a candidate by any cost; lambda is in seconds all the same."""
    pairs = seconds.pairs
    kept = kept_halos(pairs, cost, seconds.fits)
    before_s, after_s = (seconds(pairs.loads(each)) for each in (pairs.everything, kept))
    return Pruning(pairs, kept, candidate.setting.matrix.nnz, before_s, after_s)


def owners_of(candidate: Candidate) -> np.ndarray:
    """int32 [N]: who owns every vertex."""
    cycle, part = candidate.cycle, np.zeros(candidate.setting.graph.num_nodes, np.int32)
    name = next(name for name, space in cycle.spaces.items() if space.is_of_vertices)
    for worker, ids in enumerate(cycle.arrays.ids[name]):  # type: ignore[union-attr]
        part[ids[: cycle.spaces[name].num_own[worker]]] = worker
    return part


def kept_halos(pairs: HaloPairs, cost: Cost, fits: Fits) -> np.ndarray:
    """bool [K]: what algorithms 2 and 3 keep, and what they prune for nothing."""
    return restore(pairs, cost, fits, adjust_halos(pairs, cost, fits))
