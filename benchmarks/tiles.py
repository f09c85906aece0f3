"""Sums over edges by tiles of columns beside the whole matrix, on one thread and on all; both sides in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.job import NpzGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import spmm
from gnnplan.profiles.kernels.tiles import WIDE, Tiles, on_device
from gnnplan.profiles.operands import dense, random_csr

_CPU = torch.device("cpu")
_GRAPHS = ("fb100_cornell5", "flickr7k", "amazon_photo", "coauthor_physics", "actor")
_RANDOM = ((8_192, 32), (24_576, 16), (24_576, 32), (24_576, 128), (65_536, 64))  # rows, entries a row
_WIDTHS = (16, 64, 128, 256, 512)
_ROUNDS = 15


def main(quick: bool) -> dict:
    """Matrices that are drawn and those of real graphs, as they are and transposed; quick has one that is drawn."""
    all_threads, rows = torch.get_num_threads(), []
    for num_threads in (1,) if quick else sorted({1, all_threads}):
        torch.set_num_threads(num_threads)
        for name, matrix in _matrices(quick):
            rows += [_row(name, matrix, back, num_threads, quick) for back in (False, True)]
    torch.set_num_threads(all_threads)
    _show(rows)
    return summary(rows)


def summary(rows: Sequence[dict]) -> dict:
    """Figures of the matrices that are cut, where dense rows are as wide as that is done for, and of narrower ones."""
    cut = [(int(width), ratio) for row in rows if row["tiles"] > 1 for width, ratio in row["speedups"].items()]
    wide, narrow = ([ratio for width, ratio in cut if (width >= WIDE) == is_wide] for is_wide in (True, False))
    return {
        "speedup": float(np.exp(np.mean(np.log(wide)))),
        "worst_speedup": min(wide),
        "worst_speedup_of_narrow": min(narrow, default=None),
        "rows": list(rows),
    }


def _matrices(quick: bool) -> Iterator[tuple[str, sp.csr_matrix]]:
    for num_rows, degree in _RANDOM[:1] if quick else _RANDOM:
        yield f"random, {num_rows} rows of {degree}", random_csr(num_rows, degree)
    for name in () if quick else _GRAPHS:
        spec = NpzGraph(source="npz", path=DATASETS / f"{name}.npz")
        if why_absent(name, spec) is None:
            graph = load_graph(spec)
            yield name, aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn")


def _row(name: str, matrix: sp.csr_matrix, back: bool, num_threads: int, quick: bool) -> dict:
    """The whole matrix's seconds over those of tiles, by width; the same call twice where it is not cut."""
    cut, whole = on_device(matrix, back, WIDE, _CPU), csr_tensor(matrix.T.tocsr() if back else matrix)
    found: dict[str, dict[int, float]] = {"speedups": {}, "spreads": {}}
    for width in _WIDTHS[2:3] if quick else _WIDTHS:
        x = dense(_CPU, matrix.shape[1 if not back else 0], width)
        ratios = _ratios([partial(spmm, whole, x), partial(spmm, cut, x)], 3 if quick else _ROUNDS)
        found["speedups"][width] = float(np.median(ratios))
        found["spreads"][width] = float(np.subtract(*np.percentile(ratios, [75, 25])))
    tiles = len(cut.parts) if isinstance(cut, Tiles) else 1
    return {"matrix": name, "transposed": back, "threads": num_threads, "tiles": tiles, **found}


def _ratios(sides: Sequence[Callable[[], object]], rounds: int) -> np.ndarray:
    """Of the first side's seconds to the second's, round by round."""
    seconds = [[_seconds(side) for side in sides] for _ in range(rounds + 1)]
    return np.divide(*np.array(seconds[1:]).T)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="seconds of the whole matrix over those of its tiles, by columns of the dense rows")
    widths = list(rows[0]["speedups"])
    for column in ("matrix", "threads", "tiles", *map(str, widths)):
        table.add_column(column, justify="left" if column == "matrix" else "right")
    for row in rows:
        name = f"{row['matrix']}{', transposed' if row['transposed'] else ''}"
        table.add_row(name, str(row["threads"]), str(row["tiles"]), *(f"{row['speedups'][w]:.2f}x" for w in widths))
    Console().print(table)
