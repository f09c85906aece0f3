"""Pruning outside a search: of a partition that is given, and of a plan that prunes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.oracles.linear_cost import LinearCost
from benchmarks.oracles.paper_cost import paper_cost
from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.pruning.prune import Pruning, owners_of, prune_halos
from gnnplan.planner.techniques.registry import techniques


def first_candidate(job: Job, placement: Placement, graph: Graph, beside: Sequence[Choice] = ()) -> Candidate:
    """What a search would begin with: of every technique what it proposes first, which pins may decide.

    Of techniques that claim the same it is the first one's.

    Args:
        beside: choices of techniques that propose nothing at first.
    """
    setting, choices, claimed = setting_of(job, placement, graph), list(beside), set[str]()
    known = {choice.technique for choice in beside}
    for name, each in techniques().items():
        option = None if name in known else next(iter(each.options(setting, None)), None)
        if option and not claimed & each.claims:
            claimed |= each.claims
            choices.append(option)
    return compose_candidate(setting, choices)


def paper_cost_of(candidate: Candidate) -> LinearCost:
    """CaPGNN's own cost of a candidate's partition."""
    setting, part = candidate.setting, owners_of(candidate)
    rows = np.repeat(np.arange(len(part)), np.diff(setting.matrix.indptr))
    is_local = part[rows] == part[setting.matrix.indices]
    num_local, local_edges = (np.bincount(each, minlength=setting.num_workers) for each in (part, part[rows[is_local]]))
    return paper_cost(num_local, local_edges, [setting.costs[worker.profile] for worker in setting.placement.workers])


def prune_plan(plan: Plan, partition: Partition, graph: Graph) -> Pruning:
    """What RAPA would prune of a plan whose halos are whole."""
    choices = [chosen.choice(partition.chosen) for chosen in plan.choices]
    return prune_halos(compose_candidate(setting_of(plan.job, plan.placement, graph), choices))


def balance_rows(prunings: Mapping[str, Pruning]) -> list[dict[str, float | str]]:
    """A table of predicted balance before and after, a row a case: lambda in seconds, its maximum over its mean."""
    return [
        {
            "case": name,
            "max_s_before": float(pruning.before_s.max()),
            "max_s_after": float(pruning.after_s.max()),
            "max_over_mean_before": float(pruning.before_s.max() / pruning.before_s.mean()),
            "max_over_mean_after": float(pruning.after_s.max() / pruning.after_s.mean()),
            "pruned_halo_share": pruning.vertex_share,
            "pruned_edge_share": pruning.edge_share,
            "pruned_influence_share": pruning.influence_share,
        }
        for name, pruning in prunings.items()
    ]
