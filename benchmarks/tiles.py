"""Sums over edges by MKL, by own loops, and by tiles of columns, on one thread and on all; all sides in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import is_looped, spmm
from gnnplan.profiles.kernels.tiles import Tiles, on_device
from gnnplan.profiles.operands import dense, random_csr

_CPU = torch.device("cpu")
_GRAPHS = ("fb100_cornell5", "flickr7k", "amazon_photo", "coauthor_physics", "actor")
_RANDOM = ((8_192, 32), (24_576, 16), (24_576, 32), (24_576, 128), (65_536, 64))  # rows, entries a row
_WIDTHS = (16, 64, 128, 256, 512)
_QUICK_WIDTHS = (128, 1024)  # of the first matrix, which is cut for the wider rows
_ROUNDS = 15


def main(quick: bool) -> dict:
    """Matrices that are drawn and those of real graphs, as they are and transposed; quick has one that is drawn."""
    all_threads, rows = torch.get_num_threads(), []
    for num_threads in (1,) if quick else sorted({1, all_threads}):
        torch.set_num_threads(num_threads)
        for name, matrix in _matrices(quick):
            for back, width in product((False, True), _QUICK_WIDTHS if quick else _WIDTHS):
                rows.append(_row(name, matrix, back, num_threads, width, 3 if quick else _ROUNDS))
    torch.set_num_threads(all_threads)
    _show(rows)
    return summary(rows)


def summary(rows: Sequence[dict]) -> dict:
    """Figures of the products that own loops take, beside MKL's; and of those in tiles, beside own loops over all."""
    looped, cut = ([row for row in rows if row["way"] == way] for way in ("loops", "tiles"))
    return {
        **_of("loops", [row["over_mkl"] for row in looped]),
        **_of("tiles", [row["tiles_over_loops"] for row in cut]),
        **_of("tiles_over_mkl", [row["over_mkl"] for row in cut]),
        "rows": list(rows),
    }


def _of(name: str, ratios: list[float]) -> dict:
    if not ratios:
        return {}
    return {f"{name}_speedup": float(np.exp(np.mean(np.log(ratios)))), f"{name}_worst_speedup": min(ratios)}


def _matrices(quick: bool) -> Iterator[tuple[str, sp.csr_matrix]]:
    for num_rows, degree in _RANDOM[:1] if quick else _RANDOM:
        yield f"random, {num_rows} rows of {degree}", random_csr(num_rows, degree)
    for name in () if quick else _GRAPHS:
        spec = NpzGraph(source="npz", path=DATASETS / f"{name}.npz")
        if why_absent(name, spec) is None:
            graph = load_graph(spec)
            yield name, aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn")


def _row(name: str, matrix: sp.csr_matrix, back: bool, num_threads: int, width: int, rounds: int) -> dict:
    """MKL's seconds over those of the way that the runtime takes; of tiles also own loops' over all columns."""
    whole, taken = csr_tensor(matrix.T.tocsr() if back else matrix), on_device(matrix, back, width, _CPU)
    x = dense(_CPU, matrix.shape[1], width)
    out = torch.empty(whole.shape[0], width)
    sides = [partial(torch.addmm, out, whole, x, beta=0, out=out), partial(spmm, taken, x), partial(spmm, whole, x)]
    seconds = np.array([[_seconds(side) for side in sides] for _ in range(rounds + 1)][1:])
    ratios, of_loops = seconds[:, 0] / seconds[:, 1], seconds[:, 2] / seconds[:, 1]
    way = "tiles" if isinstance(taken, Tiles) else "loops" if is_looped(*x.shape) else "mkl"
    return {
        "matrix": name,
        "transposed": back,
        "threads": num_threads,
        "width": width,
        "way": way,
        "tiles": len(taken.parts) if isinstance(taken, Tiles) else 1,
        "over_mkl": float(np.median(ratios)),
        "spread": float(np.subtract(*np.percentile(ratios, [75, 25]))),
        "tiles_over_loops": float(np.median(of_loops)) if way == "tiles" else None,
    }


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="MKL's seconds over those of the way that is taken, by columns of the dense rows")
    widths = sorted({row["width"] for row in rows})
    for column in ("matrix", "threads", *map(str, widths)):
        table.add_column(column, justify="left" if column == "matrix" else "right")
    found = {(row["matrix"], row["transposed"], row["threads"], row["width"]): row for row in rows}
    for name, back, threads in dict.fromkeys(key[:3] for key in found):
        shown = [found[name, back, threads, width] for width in widths]
        cells = [f"{row['over_mkl']:.2f}x {row['way']}" for row in shown]
        table.add_row(f"{name}{', transposed' if back else ''}", str(threads), *cells)
    Console(width=140).print(table)
