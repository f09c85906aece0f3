"""Products with blocks of the aggregation matrix against what they are predicted to take by two rules.

Profiles hold square matrices with uniform columns. A halo block is not square, forward it reads as many rows as the
halo has and writes those of the part, backward the other way round. Both rules take the measured square product with as
many entries a row: one of as many rows as are written, or one of as many as are read, times the rows written over those
read. Everything is timed in one process on one thread, block after block, each beside its own predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from benchmarks.oracles.halo import build_halo
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import partition
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import spmm_add_
from gnnplan.profiles.measure import Timing, in_turn, sustained
from gnnplan.profiles.operands import random_csr

_NUM_PARTS, _BUDGET_S = 4, 0.1
_QUICK: dict[str, GraphSpec] = {"sbm": SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=4)}
_FULL: dict[str, GraphSpec] = {
    "sbm": SbmGraph(source="sbm", num_nodes=30_000, average_degree=20, num_features=4, homophily=0.8),
    "reddit-shaped": SbmGraph(
        source="sbm", num_nodes=60_000, average_degree=100, num_features=4, num_classes=41, homophily=0.78
    ),
    "rmat": RmatGraph(source="rmat", num_nodes=15_000, num_edges=300_000, num_features=4),
    "coauthor_physics": NpzGraph(source="npz", path=DATASETS / "coauthor_physics.npz"),
    "fb100_cornell5": NpzGraph(source="npz", path=DATASETS / "fb100_cornell5.npz"),
}


def main(quick: bool) -> dict:
    """The first of four METIS parts of every graph, at two widths."""
    graphs, widths = (_QUICK, (32,)) if quick else (_FULL, (64, 256))
    torch.set_num_threads(1)
    absent = {name: reason for name, graph in graphs.items() if (reason := why_absent(name, graph))}
    rows = [
        {"graph": name, "block": block, **_compare(matrix, width)}
        for name, graph in graphs.items()
        if name not in absent
        for block, matrix in _blocks(graph)
        for width in widths
    ]
    _show(rows)
    return {
        "worst_error": _worst(rows, "by_read"),
        "worst_error_by_written": _worst(rows, "by_written"),
        "mean_error": float(np.mean([abs(row["by_read"] - 1) for row in rows])),
        "mean_error_by_written": float(np.mean([abs(row["by_written"] - 1) for row in rows])),
        "skipped": list(absent.values()),
        "rows": rows,
    }


def _blocks(spec: GraphSpec) -> Iterator[tuple[str, sp.csr_matrix]]:
    graph = load_graph(spec)
    part = partition(graph.num_nodes, graph.edge_index, _NUM_PARTS, "metis")
    remote = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), part, _NUM_PARTS).blocks[0].remote
    yield "halo, forward", remote
    yield "halo, backward", remote.T.tocsr()


def _compare(matrix: sp.csr_matrix, width: int) -> dict:
    """Predicted over measured by both rules."""
    num_written, num_read = matrix.shape
    degree = matrix.nnz / num_written
    measured = _timed(matrix, width)
    written_s, read_s = (_timed(random_csr(size, degree), width).median_s for size in (num_written, num_read))
    return {
        "num_written": num_written,
        "num_read": num_read,
        "degree": degree,
        "width": width,
        "measured_s": measured.median_s,
        "spread_s": measured.spread_s,
        "by_written": written_s / measured.median_s,
        "by_read": read_s * num_written / num_read / measured.median_s,
    }


def _timed(matrix: sp.csr_matrix, width: int) -> Timing:
    ours = csr_tensor(matrix)
    operands = [(torch.zeros(matrix.shape[0], width), torch.rand(matrix.shape[1], width)) for _ in range(2)]
    call = in_turn([partial(spmm_add_, out, ours, dense) for out, dense in operands])
    return sustained(call, torch.device("cpu"), budget_s=_BUDGET_S)


def _worst(rows: Sequence[dict], rule: str) -> float:
    """The error that is the largest as a factor, less one."""
    return max(max(row[rule], 1 / row[rule]) for row in rows) - 1


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="products with halo blocks: predicted over measured")
    for column in ("graph", "block", "written", "read", "entries a row", "width", "measured", "by written", "by read"):
        table.add_column(column, justify="left" if column in ("graph", "block") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["block"],
            f"{row['num_written']:,}",
            f"{row['num_read']:,}",
            f"{row['degree']:.1f}",
            str(row["width"]),
            f"{row['measured_s'] * 1e3:.2f} ms",
            f"{row['by_written']:.2f}",
            f"{row['by_read']:.2f}",
        )
    Console().print(table)
