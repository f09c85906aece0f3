"""What planning costs on large graphs: seconds and peak memory from a job and a cluster to the plan's file.

Four workers with a link each, equal ones and different ones: of the latter every subset is looked at. Graphs are R-MAT,
the larger one with as many edges as ogbn-products. Every plan is made in a process of its own, and its children count.

`over_before` says how many times as long this edition plans as the first one did, in the geometric mean of smaller
settings (`benchmarks/_planning_before.py`).
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._planning_before import against_first_edition, mean_ratio
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.train import write_plan
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.machine import Link

_CLUSTERS = {"equal": ("t4", "t4", "t4", "t4"), "different": ("v100", "rtx-3090", "t4", "rtx-2060")}
_LINK = Link(bytes_per_s=1.25e9)
_SIZES = ((500_000, 10_000_000), (2_400_000, 62_000_000))  # vertices, edges
_MODEL = ModelSpec(kind="gcn", hidden_channels=128)
_NUM_FEATURES = 100


def main(quick: bool) -> dict:
    """Graphs by clusters; the quick form plans one small graph."""
    sizes = ((20_000, 200_000),) if quick else _SIZES
    rows = []
    for num_nodes, num_edges in sizes:
        path = OUT / "planning" / f"rmat_{num_edges}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        _in_own_process(_make, path, num_nodes, num_edges)
        names = [*_CLUSTERS] if num_edges < max(_SIZES)[1] else [*_CLUSTERS][:1]
        rows += [_in_own_process(_plan, path, name) for name in names[: 1 if quick else None]]
    before = against_first_edition(quick)
    _show(rows)
    _show_before(before)
    return {"over_before": mean_ratio(before), "before": before, "rows": rows}


def _in_own_process(step, *arguments):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(step, arguments)


def _make(path: Path, num_nodes: int, num_edges: int) -> None:
    spec = RmatGraph(
        source="rmat", num_nodes=num_nodes, num_edges=num_edges, num_features=_NUM_FEATURES, num_classes=40
    )
    graph = load_graph(spec)
    with replacing(path) as temporary:
        np.savez(temporary, x=graph.x, y=graph.y, edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def _plan(path: Path, cluster: str) -> dict:
    start_s = time.perf_counter()
    job = Job(graph=NpzGraph(source="npz", path=path), model=_MODEL)
    graph = load_graph(job.graph)
    loaded_s = time.perf_counter() - start_s
    hosts = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=each),), link=_LINK)
        for i, each in enumerate(_CLUSTERS[cluster])
    )
    plan = write_plan(job, Cluster(hosts=tuple(hosts)), graph, path.parent / "plan.json")
    assert plan.searched
    return {
        "cluster": cluster,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "seconds": time.perf_counter() - start_s,
        "load_s": loaded_s,
        "peak_bytes": sum(resource.getrusage(who).ru_maxrss for who in _WHO) * 1024,
        "num_workers": plan.num_workers,
        "techniques": [chosen.technique for chosen in plan.choices],
        "num_candidates": plan.searched.num_candidates,
        "num_sets": plan.searched.num_sets,
        "num_passed_over": plan.searched.num_passed_over,
        "epoch_s": plan.prediction.expected_epoch_s,
    }


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _show(rows: list[dict]) -> None:
    table = Table(title="planning on four workers")
    for column in ("edges", "workers", "seconds", "peak memory", "workers chosen"):
        table.add_column(column, justify="left" if column == "workers" else "right")
    for row in rows:
        peak = f"{row['peak_bytes'] / 1e9:.2f} GB"
        chosen = f"{row['num_workers']}"
        table.add_row(f"{row['num_edges']:,}", row["cluster"], f"{row['seconds']:.1f}", peak, chosen)
    Console().print(table)


def _show_before(rows: list[dict]) -> None:
    table = Table(title="planning beside the first edition")
    for column in ("setting", "seconds", "first edition", "ratio"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        table.add_row(row["setting"], f"{row['seconds']:.2f}", f"{row['before_s']:.2f}", f"{row['ratio']:.2f}")
    Console().print(table)
