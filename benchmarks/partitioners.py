"""KaMinPar against METIS: halo rows and processor seconds, into equal and into uneven parts of several graphs.

Halo rows are what halo exchange sends: vertices that some other part reads, once for every such part. A time is the
least of three, of one thread, and does not hold what is made once of a graph, which both share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.job_pins import Partitioner
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import Partitioning

_LABELLED = ("twitch_de", "coauthor_physics", "fb100_cornell5")
_EDGES_ALONE = ("dblp_coauthor_2010", "gowalla_bipartite", "web_cnr2000")
_DRAWN = {"synthetic_num_classes": 2, "synthetic_feature_width": 1}  # to be a graph; no partitioner sees it
_FULL: dict[str, GraphSpec] = {
    "rmat": RmatGraph(source="rmat", num_nodes=50_000, num_edges=1_000_000, num_features=1),
    "rmat, 10 M edges": RmatGraph(source="rmat", num_nodes=500_000, num_edges=10_000_000, num_features=1),
    "sbm": SbmGraph(source="sbm", num_nodes=50_000, average_degree=20, num_features=1),
    **{name: NpzGraph(source="npz", path=DATASETS / f"{name}.npz") for name in _LABELLED},
    **{name: NpzGraph(source="npz", path=DATASETS / f"{name}.npz", **_DRAWN) for name in _EDGES_ALONE},
}
_QUICK = {"rmat": RmatGraph(source="rmat", num_nodes=2000, num_edges=40_000, num_features=1)}
_SHARES = {"equal": (0.25,) * 4, "uneven": (0.5, 0.2, 0.2, 0.1)}
_METHODS: tuple[Partitioner, ...] = ("kaminpar", "metis")


def main(quick: bool) -> dict:
    """Cuts every graph by both into four parts, of equal and of uneven shares."""
    graphs = _QUICK if quick else _FULL
    absent = {name: reason for name, graph in graphs.items() if (reason := why_absent(name, graph))}
    rows = [row for name, spec in graphs.items() if name not in absent for row in _rows(name, load_graph(spec))]
    _show(rows)
    return {
        **{f"halo_rows_{each}": _geometric_mean(rows, each, "halo_rows") for each in _SHARES},
        **{f"seconds_{each}": _geometric_mean(rows, each, "seconds") for each in _SHARES},
        "most_halo_rows": max(row["halo_rows"] for row in rows),
        "absent": absent,
        "rows": rows,
    }


def _rows(name: str, graph: Graph) -> Iterator[dict]:
    whole = Partitioning(graph.num_nodes, graph.edge_index)
    for method in _METHODS:
        whole.into(2, method)  # makes what both share, and loads the libraries
    for parts, shares in _SHARES.items():
        found = {method: _cut(whole, method, shares) for method in _METHODS}
        yield {
            "graph": name,
            "edges": graph.num_edges,
            "parts": parts,
            **{f"{method}_{what}": value for method, each in found.items() for what, value in each.items()},
            **{what: found["kaminpar"][what] / found["metis"][what] for what in ("halo_rows", "seconds")},
        }


def _cut(whole: Partitioning, method: Partitioner, shares: tuple[float, ...]) -> dict[str, float]:
    times = []
    for _ in range(3):
        begin_s = time.process_time()
        part = whole.into(len(shares), method, shares)
        times.append(time.process_time() - begin_s)
    loads = np.bincount(part, whole.weight, len(shares)) / whole.weight.sum()
    return {
        "halo_rows": _halo_rows(whole.edge_index, part),
        "seconds": min(times),
        "fullest": float((loads / shares).max()),
    }


def _halo_rows(edge_index: np.ndarray, part: np.ndarray) -> int:
    source, target = edge_index
    leaves = part[source] != part[target]
    return len(np.unique(source[leaves].astype(np.int64) * (int(part.max()) + 1) + part[target[leaves]]))


def _geometric_mean(rows: list[dict], parts: str, what: str) -> float:
    return float(np.exp(np.mean([np.log(row[what]) for row in rows if row["parts"] == parts])))


def _show(rows: list[dict]) -> None:
    table = Table(title="KaMinPar over METIS, four parts")
    for column in ("graph", "edges", "parts", "halo rows", "processor s", "fullest part"):
        table.add_column(column, justify="left" if column in ("graph", "parts") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            f"{row['edges']:,}",
            row["parts"],
            f"{row['halo_rows']:.2f}x",
            f"{row['seconds']:.2f}x",
            f"{row['kaminpar_fullest']:.3f}",
        )
    Console().print(table)
