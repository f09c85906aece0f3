"""Mini-batches a second against PyG's `NeighborLoader`: same graph, seeds, fan-outs, batch size and workers.

A time is that of a whole epoch whose consumer only takes the batches; PyG's worker processes are
persistent and warm. Both sides take turns, epoch by epoch. With no workers both may use all cores to
pick feature rows; with two, each worker has one. Batches of three hops are mostly feature rows to copy, those of two
rather neighbours to draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
import torch_geometric.typing as pyg_typing
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PygNeighborLoader

from benchmarks._common import dataset, median_and_spread
from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.profiler import num_usable_cores
from gnnplan.runtime.sampling import NeighborLoader

WORKERS = (0, 2)
NUM_FEATURES = 128
REAL = "fb100_cornell5"


@dataclass(frozen=True)
class Setting:
    """What both sides are given.

    Args:
        num_batches: batches an epoch, where the graph has as many.
        repeats: epochs timed a side, after one that is not.
    """

    fan_outs: tuple[int, ...]
    batch_size: int
    num_batches: int
    repeats: int


_QUICK = (Setting((10, 5), 64, 8, 3),)
_FULL = (Setting((15, 10), 1024, 30, 7), Setting((15, 10, 5), 1024, 20, 5))


def main(quick: bool) -> dict:
    """Both loaders on every graph, with and without workers."""
    backend = _backend()
    torch.set_num_threads(num_usable_cores())
    settings = _QUICK if quick else _FULL
    rows: list[dict] = []
    skipped: list[str] = []
    for name, make in _graphs(quick).items():
        try:
            data = _data(make())
        except UserError as error:
            skipped.append(f"{name}: {error}")
            continue
        for setting, num_workers in product(settings, WORKERS):
            rows.append({"graph": name, "fan_outs": setting.fan_outs, **_compare(data, setting, num_workers)})
            print(f"{name} {setting.fan_outs}, {num_workers} workers: {rows[-1]['speedup']:.2f}x", flush=True)
    _show(rows)
    return {
        "speedup_over_pyg": _mean_speedup(rows),
        "speedup_by_fan_outs": {
            "-".join(map(str, setting.fan_outs)): _mean_speedup([r for r in rows if r["fan_outs"] == setting.fan_outs])
            for setting in settings
        },
        "pyg_backend": backend,
        "batch_size": settings[0].batch_size,
        "skipped": skipped,
        "rows": rows,
    }


def _mean_speedup(rows: Sequence[dict]) -> float:
    return math.exp(float(np.mean([math.log(row["speedup"]) for row in rows])))


def _backend() -> str:
    """What PyG's loader samples with."""
    if pyg_typing.WITH_PYG_LIB:
        return "pyg-lib"
    if pyg_typing.WITH_TORCH_SPARSE:
        return "torch-sparse"
    raise UserError("PyG's NeighborLoader cannot sample here; install pyg-lib or torch-sparse to compare with it")


def _graphs(quick: bool) -> dict[str, Callable[[], Graph]]:
    if quick:
        small = SbmGraph(source="sbm", num_nodes=3000, average_degree=20, num_features=NUM_FEATURES)
        return {"sbm, small": lambda: generate_sbm(small)}
    rmat = RmatGraph(source="rmat", num_nodes=500_000, num_edges=10_000_000, num_features=NUM_FEATURES)
    sbm = SbmGraph(source="sbm", num_nodes=200_000, average_degree=25, num_features=NUM_FEATURES)
    return {
        "rmat": lambda: generate_rmat(rmat),
        "sbm": lambda: generate_sbm(sbm),
        REAL: lambda: load_graph(NpzGraph(source="npz", path=dataset(REAL))),
    }


def _data(graph: Graph) -> Data:
    """The graph as PyG takes it. Features that are mostly zeros are projected to as many as the others have."""
    x = graph.x
    if graph.has_sparse_features:
        projection = np.random.default_rng(0).standard_normal((graph.num_features, NUM_FEATURES), dtype=np.float32)
        x = np.asarray(x @ projection)
    edge_index = torch.from_numpy(graph.edge_index).to(torch.int64)
    return Data(x=torch.from_numpy(x), y=torch.from_numpy(graph.y), edge_index=edge_index)


def _compare(data: Data, setting: Setting, num_workers: int) -> dict:
    seeds = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    seeds = seeds[: setting.batch_size * setting.num_batches]
    given = {"input_nodes": seeds, "batch_size": setting.batch_size, "num_workers": num_workers}
    ours = NeighborLoader(data, list(setting.fan_outs), **given)
    pyg = PygNeighborLoader(data, num_neighbors=list(setting.fan_outs), persistent_workers=num_workers > 0, **given)
    shapes = {"batches": len(ours), **_check_equal_shapes(data, zip(ours, pyg, strict=True))}
    times: dict[str, list[float]] = {"ours": [], "pyg": []}
    for _ in range(setting.repeats):
        for name, loader in (("ours", ours), ("pyg", pyg)):
            start_s = time.perf_counter()
            for _ in loader:
                pass
            times[name].append((time.perf_counter() - start_s) / len(ours))
    row = {"num_vertices": data.num_nodes, "num_edges": data.num_edges, "num_workers": num_workers, **shapes}
    for name, seconds in times.items():
        median, spread = median_and_spread([1 / each for each in seconds])
        row |= {f"{name}_batches_per_s": median, f"{name}_spread_per_s": spread}
    return row | {"speedup": row["ours_batches_per_s"] / row["pyg_batches_per_s"]}


def _check_equal_shapes(data: Data, pairs: Iterator[tuple[Data, Data]]) -> dict:
    """Means over one epoch of both, which is also the one that is not timed.

    Seeds must be equal, and so must the edges of the first hop, whose number is no matter of chance;
    all edges, vertices and feature rows must be as many within two percent.
    """
    totals = np.zeros((2, 2))
    num_batches = 0
    for ours, pyg in pairs:
        size = ours.batch_size
        first_hop = [int((batch.edge_index[1] < size).sum()) for batch in (ours, pyg)]
        if pyg.batch_size != size or not torch.equal(ours.n_id[:size], pyg.n_id[:size]) or len(set(first_hop)) > 1:
            raise RunFailedError(f"batches of other shapes: {ours} and {pyg}")
        for batch in (ours, pyg):
            if not torch.equal(batch.x, data.x[batch.n_id]):
                raise RunFailedError(f"a batch without the rows of its vertices: {batch}")
        totals += [[batch.num_edges, batch.num_nodes] for batch in (ours, pyg)]
        num_batches += 1
    difference = np.abs(totals[0] / totals[1] - 1).max()
    if difference > 0.02:
        raise RunFailedError(f"batches differ in size by {difference:.1%} (edges, vertices): {totals.tolist()}")
    edges, vertices = totals[0] / num_batches
    return {"edges_a_batch": edges, "vertices_a_batch": vertices, "size_difference": float(difference)}


def _show(rows: list[dict]) -> None:
    table = Table(title="batches a second")
    for column in ("graph", "fan-outs", "workers", "edges a batch", "gnnplan", "PyG", "speedup"):
        table.add_column(column, justify="left" if column == "graph" else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            "-".join(map(str, row["fan_outs"])),
            str(row["num_workers"]),
            f"{row['edges_a_batch']:,.0f}",
            f"{row['ours_batches_per_s']:.1f} ± {row['ours_spread_per_s']:.1f}",
            f"{row['pyg_batches_per_s']:.1f} ± {row['pyg_spread_per_s']:.1f}",
            f"{row['speedup']:.2f}x",
        )
    Console().print(table)
