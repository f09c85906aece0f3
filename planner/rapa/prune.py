"""A partition's halos pruned for one order of operators, and what that did to the workers' costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.rapa.adjust_halos import adjust_halos
from gnnplan.planner.rapa.give_back import give_back
from gnnplan.planner.rapa.pairs import HaloPairs
from gnnplan.planner.rapa.seconds import Cost, Fits, SecondsCost
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.trial import Trial


@dataclass(frozen=True)
class Pruning:
    """What RAPA takes from a partition.

    Args:
        pruned: int32 [2, P], (worker, vertex).
        num_pairs: halo vertices before, over all workers.
        edge_share: of the aggregation's entries, those pruned.
        influence_share: of the halos' influence, that pruned.
        before_s, after_s: lambda [W], predicted seconds an epoch.
    """

    pruned: np.ndarray
    num_pairs: int
    edge_share: float
    influence_share: float
    before_s: np.ndarray
    after_s: np.ndarray


def prune_halos(
    trial: Trial,
    layers: tuple[LayerDecision, ...],
    cache: CacheDecision = NO_CACHE,
    at_work: np.ndarray | None = None,
) -> Pruning:
    """`kept_halos` on a partition whose halos are still whole, by its predicted seconds.

    Args:
        cache: rows that will be kept between epochs, so that they travel in few.
        at_work: bool [W], workers that have a share of the graph (None: all).
    """
    pairs, cost = HaloPairs.of(trial.problem.graph, trial.halo), SecondsCost(trial, layers, cache)
    kept = kept_halos(pairs, cost, cost.fits, at_work)
    num_edges = sum(shape.num_edges for shape in trial.shapes)
    return Pruning(
        pruned=pairs.pruned(kept),
        num_pairs=len(kept),
        edge_share=float(pairs.num_edges[~kept].sum() / max(num_edges, 1)),
        influence_share=float(pairs.influence[~kept].sum() / max(pairs.influence.sum(), 1e-300)),
        before_s=cost(pairs.loads(pairs.everything)),
        after_s=cost(pairs.loads(kept)),
    )


def kept_halos(pairs: HaloPairs, cost: Cost, fits: Fits, at_work: np.ndarray | None = None) -> np.ndarray:
    """bool [K]: what algorithms 2 and 3 keep, and what they prune for nothing.

    Args:
        at_work: bool [W], workers that have a share of the graph (None: all).
    """
    return give_back(pairs, cost, fits, adjust_halos(pairs, cost, fits, at_work))


def balance_rows(prunings: Mapping[str, Pruning]) -> list[dict[str, float | str]]:
    """A table of predicted balance before and after, a row a case: lambda in seconds, its maximum over its mean."""
    return [
        {
            "case": name,
            "max_s_before": float(pruning.before_s.max()),
            "max_s_after": float(pruning.after_s.max()),
            "max_over_mean_before": float(pruning.before_s.max() / pruning.before_s.mean()),
            "max_over_mean_after": float(pruning.after_s.max() / pruning.after_s.mean()),
            "pruned_halo_share": pruning.pruned.shape[1] / max(pruning.num_pairs, 1),
            "pruned_edge_share": pruning.edge_share,
            "pruned_influence_share": pruning.influence_share,
        }
        for name, pruning in prunings.items()
    ]
