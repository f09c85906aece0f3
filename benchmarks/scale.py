"""A large graph on a small machine: seconds and peak memory to make, save, load and partition it."""

from __future__ import annotations

import multiprocessing
import resource
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import partition
from gnnplan.profiles.contract import replacing

NUM_PARTS = 4


def main(quick: bool) -> dict:
    """Each step in a process of its own, so that its peak is its own."""
    num_edges, num_nodes = (1_000_000, 100_000) if quick else (100_000_000, 5_000_000)
    path = OUT / "scale" / f"rmat_{num_edges}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [_in_own_process(_make, path, num_nodes, num_edges)]
    rows.append(_in_own_process(_load_and_partition, path))
    _show(rows)
    return {
        "num_edges": num_edges,
        "num_parts": NUM_PARTS,
        "peak_bytes": max(row["peak_bytes"] for row in rows),
        "rows": rows,
    }


def _in_own_process(step, *arguments) -> dict:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(step, arguments)


def _make(path: Path, num_nodes: int, num_edges: int) -> dict:
    start_s = time.perf_counter()
    spec = RmatGraph(source="rmat", num_nodes=num_nodes, num_edges=num_edges, num_features=1, num_classes=2)
    graph = load_graph(spec)
    with replacing(path) as temporary:
        np.savez(temporary, x=graph.x, y=graph.y, edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    return _row("generate and save", start_s, graph.num_edges)


def _load_and_partition(path: Path) -> dict:
    start_s = time.perf_counter()
    graph = load_graph(NpzGraph(source="npz", path=path))
    loaded_s = time.perf_counter() - start_s
    part = partition(graph.num_nodes, graph.edge_index, NUM_PARTS, "metis", seed=0)
    sizes = np.bincount(part, minlength=NUM_PARTS)
    return {
        **_row(f"load and cut in {NUM_PARTS} (METIS)", start_s, graph.num_edges),
        "load_s": loaded_s,
        "cut_share": float(np.count_nonzero(part[graph.edge_index[0]] != part[graph.edge_index[1]]) / graph.num_edges),
        "largest_over_mean_vertices": float(sizes.max() / sizes.mean()),
    }


def _row(step: str, start_s: float, num_edges: int) -> dict:
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"step": step, "seconds": time.perf_counter() - start_s, "num_edges": num_edges, "peak_bytes": peak_bytes}


def _show(rows: list[dict]) -> None:
    table = Table(title="a large R-MAT graph")
    for column in ("step", "edges", "seconds", "peak memory"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for row in rows:
        peak = f"{row['peak_bytes'] / 2**30:.1f} GiB"
        table.add_row(row["step"], f"{row['num_edges']:,}", f"{row['seconds']:.0f}", peak)
    Console().print(table)
