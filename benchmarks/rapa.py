"""Halo pruning: how far CaPGNN's algorithms are from the optimum, and what the paper's cost would prune.

Small cases, drawn graphs in equal METIS parts on two to four catalog devices of different speed, are solved by CP-SAT:
the least largest cost over all choices that prune no more influence than the planner does, and the least influence that
makes the largest cost no larger than its, under the paper's cost and under predicted seconds taken as linear. Beside it
stands what algorithms 2 and 3 alone would prune, also above a mean where another worker stays later, and the planner
gives back. A case where they prune nothing proves nothing and is left out. Larger ones, on groups of the paper's
devices, are pruned by predicted seconds and by `paper_cost`, whose terms have no unit; both are judged by the same
simulated epoch and by the influence that they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._capgnn import GROUPS
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import resolve
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo, prune_halo
from gnnplan.planner.job import Job, ModelSpec, RmatGraph, SbmGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partition import partition
from gnnplan.planner.rapa.linear import LinearCost
from gnnplan.planner.rapa.optimum import HeuristicGap, heuristic_gap
from gnnplan.planner.rapa.pairs import HaloPairs
from gnnplan.planner.rapa.paper import paper_cost
from gnnplan.planner.rapa.prune import kept_halos
from gnnplan.planner.rapa.seconds import Cost, SecondsCost
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.trial import Trial
from gnnplan.planner.what_if import one_host

_HIDDEN, _NUM_LAYERS = 256, 3
_LAYERS = (LayerDecision(op_order="multiply_first"),) * _NUM_LAYERS
_DEVICES = (("rtx-3090", "gtx-1660ti"), ("rtx-3090", "rtx-3060", "gtx-1660ti"), ("rtx-3090", "a40", "t4", "gtx-1650"))
_SOLVING_S = 10.0


def main(quick: bool) -> dict:
    """Small cases against the optimum, then larger ones by both costs."""
    gaps = [row for seed in range(2 if quick else 10) for row in _gaps(seed)]
    sizes = [(2_000, 20_000)] if quick else [(20_000, 200_000), (60_000, 1_500_000)]
    rows = [row for size in sizes for row in _compared(*size, groups=("x4",) if quick else ("x4", "x6", "x8"))]
    _show(gaps, rows)
    return {
        "cases": len(gaps),
        "proven_optimal": sum(row["is_proven"] for row in gaps),
        "median_gap": float(np.median([row["gap"] for row in gaps])),
        "mean_gap": float(np.mean([row["gap"] for row in gaps])),
        "worst_gap": max(row["gap"] for row in gaps),
        "median_excess_influence": float(np.median([row["excess_influence"] for row in gaps])),
        "worst_excess_influence": max(row["excess_influence"] for row in gaps),
        "gaps": gaps,
        "rows": rows,
    }


def _gaps(seed: int) -> Iterator[dict]:
    for devices in _DEVICES:
        for source in ("sbm", "rmat"):
            graph = _small(source, seed)
            trial = _trial(graph, devices)
            pairs = HaloPairs.of(graph, trial.halo)
            for name, cost in _linear_costs(trial, pairs).items():
                gap = heuristic_gap(pairs, cost, _SOLVING_S)
                if gap.paper_influence > 0:
                    yield {
                        "graph": graph.name,
                        "seed": seed,
                        "devices": devices,
                        "cost": name,
                        "halo": len(pairs.worker),
                        "gap": gap.gap,
                        "is_proven": _is_proven(gap),
                        "heuristic_max_cost": gap.heuristic_max_cost,
                        "optimal_max_cost": gap.optimal_max_cost,
                        "paper_influence": gap.paper_influence,
                        "heuristic_influence": gap.heuristic_influence,
                        "least_influence": gap.least_influence,
                        "excess_influence": gap.heuristic_influence - gap.least_influence,
                        "saved": 1 - gap.heuristic_max_cost / gap.unpruned_max_cost,
                    }


def _is_proven(gap: HeuristicGap) -> bool:
    """Whether nothing is better than either optimum, but for rounding."""
    is_least_cost = gap.bound >= gap.optimal_max_cost * (1 - 1e-4)
    return is_least_cost and gap.least_influence_bound >= gap.least_influence - 1e-5


def _small(source: str, seed: int) -> Graph:
    spec = (
        SbmGraph(source="sbm", num_nodes=60, average_degree=4, num_classes=4, num_features=32, seed=seed)
        if source == "sbm"
        else RmatGraph(source="rmat", num_nodes=60, num_edges=120, num_features=32, seed=seed)
    )
    return load_graph(spec)


def _linear_costs(trial: Trial, pairs: HaloPairs) -> dict[str, LinearCost]:
    seconds = LinearCost.through(SecondsCost(trial, _LAYERS), pairs.loads(pairs.everything))
    return {"paper": _paper_cost(trial), "seconds": seconds}


def _paper_cost(trial: Trial) -> LinearCost:
    return paper_cost(trial.shapes, [trial.costs[worker.profile] for worker in trial.problem.placement.workers])


def _trial(graph: Graph, devices: tuple[str, ...]) -> Trial:
    """A GCN on equal METIS parts, a device each."""
    job = Job(graph=SbmGraph(source="sbm"), model=ModelSpec(num_layers=_NUM_LAYERS, hidden_channels=_HIDDEN))
    problem = Problem(graph, job, resolve(one_host("-".join(devices), devices)))
    part = partition(graph.num_nodes, graph.edge_index, len(devices), "metis")
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), np.asarray(part), len(devices))
    return Trial(problem, part, halo, sparse=False)


def _compared(num_nodes: int, num_edges: int, groups: tuple[str, ...]) -> Iterator[dict]:
    graph = load_graph(RmatGraph(source="rmat", num_nodes=num_nodes, num_edges=num_edges, num_features=256, seed=1))
    for group in groups:
        trial = _trial(graph, GROUPS[group])
        pairs, seconds = HaloPairs.of(graph, trial.halo), SecondsCost(trial, _LAYERS)
        costs: dict[str, Cost] = {"seconds": seconds, "paper": _paper_cost(trial)}
        whole_s = trial.epoch_s(_LAYERS)
        for name, cost in costs.items():
            kept = kept_halos(pairs, cost, seconds.fits)
            less = replace(trial, halo=prune_halo(trial.halo, pairs.pruned(kept)), _caches={})
            yield {
                "graph": graph.name,
                "group": group,
                "cost": name,
                "speedup": whole_s / less.epoch_s(_LAYERS),
                "max_over_mean_s": _max_over_mean(seconds(pairs.loads(kept))),
                "max_over_mean_s_before": _max_over_mean(seconds(pairs.loads(pairs.everything))),
                "pruned_halo_share": float((~kept).mean()),
                "pruned_influence_share": float(pairs.influence[~kept].sum() / pairs.influence.sum()),
            }


def _max_over_mean(costs: np.ndarray) -> float:
    return float(costs.max() / costs.mean())


def _show(gaps: list[dict], rows: list[dict]) -> None:
    table = Table(title="pruning above the optimum under the influence that it spends")
    for column in (
        "cost",
        "cases",
        "median gap",
        "worst gap",
        "largest cost saved",
        "by the paper",
        "influence",
        "least for that",
    ):
        table.add_column(column, justify="left" if column == "cost" else "right")
    for name in sorted({row["cost"] for row in gaps}):
        own = [row for row in gaps if row["cost"] == name]
        gap, saved = [row["gap"] for row in own], [row["saved"] for row in own]
        spent = [np.mean([row[f"{which}_influence"] for row in own]) for which in ("paper", "heuristic", "least")]
        shares = (f"{np.median(gap):.1%}", f"{max(gap):.1%}", f"{np.median(saved):.0%}")
        table.add_row(name, str(len(own)), *shares, *(f"{share:.0%}" for share in spent))
    Console().print(table)
    table = Table(title="pruned by predicted seconds, and by the paper's cost")
    for column in ("graph", "group", "cost", "epoch", "max/mean", "halo pruned", "influence pruned"):
        table.add_column(column, justify="left" if column in ("graph", "group", "cost") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["group"],
            row["cost"],
            f"{row['speedup']:.2f}x",
            f"{row['max_over_mean_s_before']:.2f} to {row['max_over_mean_s']:.2f}",
            f"{row['pruned_halo_share']:.0%}",
            f"{row['pruned_influence_share']:.0%}",
        )
    Console().print(table)
