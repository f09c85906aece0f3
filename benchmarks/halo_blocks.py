"""Products with blocks of the aggregation matrix against what they are predicted to take by four rules.

Profiles hold square matrices with uniform columns. A halo block is not square, forward it reads as many rows as the
halo has and writes those of the part, backward the other way round. All rules take the measured square product with as
many entries a row, times the rows written over its own: one of as many rows as are written, of as many as are read, or
of as many as are in use. Where vertex v is read c(v) times, (sum of sqrt c)^2 / (sum of c) rows are in use: as many as
are read where all are read equally often, and fewer the more often some are (the exponential of Renyi's entropy of
order 1/2); as few as lie in a core's cache are all in use. The last rule takes the share of rows in use from the whole
matrix, for every block. A matrix is cut into tiles where the runtime cuts it, and so is each square one beside it.
Everything is timed in one process on one thread, block after block, each beside its own predictions.

The planner goes by the last rule, which needs no more of a graph than its degrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf

import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from benchmarks.oracles.halo import build_halo
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.costs import num_in_use
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import partition
from gnnplan.planner.program.in_use import share_in_use, whole_block
from gnnplan.profiles.kernels.sparse import spmm_add_
from gnnplan.profiles.kernels.tiles import num_tiles, on_device
from gnnplan.profiles.measure import Timing, in_turn, sustained
from gnnplan.profiles.operands import random_csr

_NUM_PARTS, _BUDGET_S = 4, 0.1
_RULES = ("by_written", "by_read", "by_use", "by_share")
_QUICK: dict[str, GraphSpec] = {"sbm": SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=4)}
_FULL: dict[str, GraphSpec] = {
    "sbm": SbmGraph(source="sbm", num_nodes=30_000, average_degree=20, num_features=4, homophily=0.8),
    "reddit-shaped": SbmGraph(
        source="sbm", num_nodes=60_000, average_degree=100, num_features=4, num_classes=41, homophily=0.78
    ),
    "rmat": RmatGraph(source="rmat", num_nodes=15_000, num_edges=300_000, num_features=4),
    "large rmat": RmatGraph(source="rmat", num_nodes=100_000, num_edges=5_000_000, num_features=4),
    "coauthor_physics": NpzGraph(source="npz", path=DATASETS / "coauthor_physics.npz"),
    "fb100_cornell5": NpzGraph(source="npz", path=DATASETS / "fb100_cornell5.npz"),
}


def main(quick: bool) -> dict:
    """The first of four METIS parts of every graph, at two widths."""
    graphs, widths = (_QUICK, (32,)) if quick else (_FULL, (64, 128, 256))
    torch.set_num_threads(1)
    absent = {name: reason for name, graph in graphs.items() if (reason := why_absent(name, graph))}
    rows = [
        {"graph": name, "block": block, **_compare(matrix, share, width)}
        for name, graph in graphs.items()
        if name not in absent
        for block, matrix, share in _blocks(graph)
        for width in widths
    ]
    _show(rows)
    figures = {"worst_error": _worst, "mean_error": _mean, "mean_ratio": _mean_ratio}
    of_each = ((f"{name}_{rule}", figure(rows, rule)) for name, figure in figures.items() for rule in _RULES)
    return {
        **{name.removesuffix("_by_share"): value for name, value in of_each},
        "skipped": list(absent.values()),
        "rows": rows,
    }


def _blocks(spec: GraphSpec) -> Iterator[tuple[str, sp.csr_matrix, float]]:
    """Each with the share of rows that are in use where the whole matrix is multiplied that way."""
    graph = load_graph(spec)
    part = partition(graph.num_nodes, graph.edge_index, _NUM_PARTS, "metis")
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn")
    remote = build_halo(matrix, part, _NUM_PARTS).blocks[0].remote
    forward, backward = whole_block("whole", "rows", "columns", matrix).in_use
    yield "whole", matrix, forward
    yield "halo, forward", remote, forward
    yield "halo, backward", remote.T.tocsr(), backward


def _compare(matrix: sp.csr_matrix, share: float, width: int) -> dict:
    """Predicted over measured by all rules."""
    (num_written, num_read), times_read = matrix.shape, np.bincount(matrix.indices, minlength=matrix.shape[1])
    sizes = {
        "by_written": num_written,
        "by_read": num_read,
        "by_use": num_in_use(share_in_use(times_read), int(np.count_nonzero(times_read)), width),
        "by_share": num_in_use(share, num_read, width),
    }
    is_cut, degree = num_tiles(num_written, num_read, matrix.nnz, width) > 1, matrix.nnz / num_written
    measured = _timed(matrix, width, is_cut)
    square_s = {rule: _timed(random_csr(size, degree), width, is_cut).median_s for rule, size in sizes.items()}
    return {
        "num_written": num_written,
        "num_read": num_read,
        "num_in_use": sizes["by_use"],
        "degree": degree,
        "width": width,
        "is_cut": is_cut,
        "measured_s": measured.median_s,
        "spread_s": measured.spread_s,
        **{rule: square_s[rule] * num_written / size / measured.median_s for rule, size in sizes.items()},
    }


def _timed(matrix: sp.csr_matrix, width: int, is_cut: bool) -> Timing:
    ours = on_device(matrix, False, inf if is_cut else 0, torch.device("cpu"))
    operands = [(torch.zeros(matrix.shape[0], width), torch.rand(matrix.shape[1], width)) for _ in range(2)]
    call = in_turn([partial(spmm_add_, out, ours, dense) for out, dense in operands])
    return sustained(call, torch.device("cpu"), budget_s=_BUDGET_S)


def _worst(rows: Sequence[dict], rule: str) -> float:
    """The error that is the largest as a factor, less one."""
    return max(max(row[rule], 1 / row[rule]) for row in rows) - 1


def _mean(rows: Sequence[dict], rule: str) -> float:
    return float(np.mean([abs(row[rule] - 1) for row in rows]))


def _mean_ratio(rows: Sequence[dict], rule: str) -> float:
    """The geometric mean: above 1 where a rule predicts too long."""
    return float(np.exp(np.mean([np.log(row[rule]) for row in rows])))


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="products with halo blocks: predicted over measured")
    table.add_column("block")
    for column in ("written", "read", "a row", "width", "ms", *(rule.removeprefix("by_") for rule in _RULES)):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{row['graph']}, {row['block']}",
            *(f"{row[name]:,}" for name in ("num_written", "num_read")),
            f"{row['degree']:.0f}",
            str(row["width"]),
            f"{row['measured_s'] * 1e3:.1f}",
            *(f"{row[rule]:.2f}" for rule in _RULES),
        )
    Console().print(table)
