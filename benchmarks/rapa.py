"""Halo pruning: how far CaPGNN's algorithms are from the optimum, and what the paper's cost would prune.

Small cases, drawn graphs in equal METIS parts on two to four catalog devices of different speed, are solved by CP-SAT:
the least largest cost over all choices that prune no more influence than the planner does, and the least influence that
makes the largest cost no larger than its, under the paper's cost and under predicted seconds taken as linear. Beside it
stands what algorithms 2 and 3 alone would prune, also above a mean where another worker stays later, and the planner
restores. A case where they prune nothing proves nothing and is left out. Larger ones, on groups of the paper's
devices, are pruned by predicted seconds and by `paper_cost`, whose terms have no unit; both are judged by the same
simulated epoch and by the influence that they cost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._capgnn import GROUPS
from benchmarks._pruning import first_candidate, paper_cost_of
from benchmarks.oracles.best_pruning import HeuristicGap, heuristic_gap
from benchmarks.oracles.linear_cost import line_of_seconds
from gnnplan.planner.cluster import resolve
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.pruning.adjust_halos import Cost
from gnnplan.planner.techniques.pruning.prune import cost_of, pruned_by
from gnnplan.planner.techniques.pruning.technique import choice_of
from gnnplan.planner.what_if import one_host

_HIDDEN, _NUM_LAYERS = 256, 3
_PIN = PinnedDecisions(
    partitioner="metis", balance="equal", op_order="multiply_first", overlap=False, dependencies="communicate"
)
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
            candidate = _candidate(graph, devices)
            seconds = cost_of(candidate)
            for name, cost in {"paper": paper_cost_of(candidate), "seconds": line_of_seconds(seconds)}.items():
                gap = heuristic_gap(seconds.pairs, cost, _SOLVING_S)
                if gap.paper_influence > 0:
                    yield {
                        "graph": graph.name,
                        "seed": seed,
                        "devices": devices,
                        "cost": name,
                        "halo": len(seconds.pairs.worker),
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


def _candidate(graph: Graph, devices: tuple[str, ...]) -> Candidate:
    """A GCN on equal METIS parts, a device each."""
    job = Job(graph=SbmGraph(source="sbm"), model=ModelSpec(num_layers=_NUM_LAYERS, hidden_channels=_HIDDEN), pin=_PIN)
    return first_candidate(job, resolve(one_host("-".join(devices), devices)), graph)


def _compared(num_nodes: int, num_edges: int, groups: tuple[str, ...]) -> Iterator[dict]:
    graph = load_graph(RmatGraph(source="rmat", num_nodes=num_nodes, num_edges=num_edges, num_features=256, seed=1))
    for group in groups:
        candidate = _candidate(graph, GROUPS[group])
        seconds = cost_of(candidate)
        costs: dict[str, Cost] = {"seconds": seconds, "paper": paper_cost_of(candidate)}
        for name, cost in costs.items():
            pruning = pruned_by(candidate, seconds, cost)
            less = compose_candidate(candidate.setting, [*candidate.choices, choice_of(candidate, pruning)])
            yield {
                "graph": graph.name,
                "group": group,
                "cost": name,
                "speedup": candidate.epoch_s / less.epoch_s,
                "max_over_mean_s": _max_over_mean(pruning.after_s),
                "max_over_mean_s_before": _max_over_mean(pruning.before_s),
                "pruned_halo_share": pruning.vertex_share,
                "pruned_influence_share": pruning.influence_share,
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
