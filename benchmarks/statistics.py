"""How far statistics are from the graph itself: halo rows, seconds and bytes, on eight real graphs.

Every graph is cut by KaMinPar into 2, 4, 8 and 16 equal parts, and these cuts are its statistics. Then it is cut into
numbers of parts that were not measured: 3, 6 and 12 lie between, 32 and 64 beyond. For each of these a GCN of two
layers is priced from statistics, and from the real partition, by the same readers with the same techniques, on as many
T4 over 10 Gbit/s. So the difference is that of statistics alone. The same is done as if no cut had been measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS, why_absent
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.partitioning.partition import Partitioning
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.halo import Halos
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.planner.statistics.measure import cut_of, measure, without_loops
from gnnplan.planner.statistics.price import Priced, Pricer
from gnnplan.planner.statistics.stand_in import Structures

GRAPHS = (
    "amazon_photo",
    "blogcatalog5k",
    "coauthor_physics",
    "dblp_coauthor_2010",
    "facebook_page_page",
    "fb100_cornell5",
    "github_social",
    "gowalla_bipartite",
)
_MEASURED, _BETWEEN, _BEYOND = (2, 4, 8, 16), (3, 6, 12), (32, 64)
_WIDTH, _CLASSES = 128, 8  # drawn where a graph has none


def main(quick: bool) -> dict:
    """The errors of every graph; the quick form takes one graph and two numbers of parts."""
    specs = {name: _spec(name) for name in (GRAPHS[:1] if quick else GRAPHS)}
    skipped = [reason for name, spec in specs.items() if (reason := why_absent(name, spec))]
    rows: list[dict] = []
    for name, spec in specs.items():
        if why_absent(name, spec):
            continue
        graph = load_graph(spec)
        rows += _of_graph(name, spec, graph, (3,) if quick else _BETWEEN, (32,) if quick else _BEYOND)
        print(f"{name}: done", flush=True)
    _show(rows)
    return {**_summary(rows), "skipped": skipped, "rows": rows}


def _spec(name: str) -> NpzGraph:
    return NpzGraph(
        source="npz",
        path=DATASETS / f"{name}.npz",
        split="random",
        synthetic_feature_width=_WIDTH,
        synthetic_num_classes=_CLASSES,
    )


def _of_graph(name: str, spec: NpzGraph, graph: Graph, between: Sequence[int], beyond: Sequence[int]) -> list[dict]:
    statistics, matrix = measure(graph, _MEASURED), without_loops(graph)
    whole = Partitioning(graph.num_nodes, graph.edge_index)
    job = Job(graph=spec, model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=128))
    rows = []
    for num_parts in (*between, *beyond):
        part = whole.into(num_parts, "kaminpar")
        cut, device = cut_of(matrix, part, num_parts), DeviceSpec(catalog="t4")
        place = resolve(Cluster(hosts=(HostSpec(name="host", count=num_parts, devices=(device,)),)))
        halos = Halos(statistics)
        rows.append(
            {
                "graph": name,
                "num_parts": num_parts,
                "is_beyond": num_parts in beyond,
                "halo_rows": cut.halo_rows,
                "halo_error": _halo(halos, num_parts) / cut.halo_rows - 1,
                "random_halo_error": _halo(Halos(_unknown(statistics)), num_parts) / cut.halo_rows - 1,
                "edges_error": halos.remote_edges(1 / num_parts) / cut.remote_edges - 1,
                **_prices(job, setting_of(job, place, graph), statistics, part),
            }
        )
    return rows


def _halo(halos: Halos, num_parts: int) -> float:
    return halos.rows(1 / num_parts) * num_parts / halos.of.num_nodes


def _unknown(statistics: Statistics) -> Statistics:
    return statistics.model_copy(update={"cuts": ()})


def _prices(job: Job, setting: Setting, statistics: Statistics, part: np.ndarray) -> dict:
    """Errors of seconds and bytes of every program with halos, and of the fastest of all."""
    machine = machine_of(setting.placement)
    found = Pricer(statistics, Structures()).candidates(job, machine)
    unknown = Pricer(_unknown(statistics), Structures()).candidates(job, machine)
    seconds, num_bytes, random = [], [], []
    best_real_s = float("inf")
    for priced, without in zip(found, unknown, strict=True):
        cut = compose_candidate(setting, _choices(priced, part))
        best_real_s = min(best_real_s, cut.epoch_s)
        if priced.has_halos:
            seconds.append(priced.epoch_s / cut.epoch_s - 1)
            random.append(without.epoch_s / cut.epoch_s - 1)
            peak = max(each.peak_bytes for each in cut.memory)
            num_bytes.append(priced.memory[0].peak_bytes / peak - 1)
    return {
        "seconds_errors": seconds,
        "bytes_errors": num_bytes,
        "random_seconds_errors": random,
        "fastest_error": min(each.epoch_s for each in found) / best_real_s - 1,
    }


def _choices(priced: Priced, part: np.ndarray) -> list[Choice]:
    """What was priced on the real graph; shares are equal, and those of a stand-in are left out."""
    return [
        Choice(each.technique, type(each.decision)() if hasattr(each.decision, "shares") else each.decision, arrays)
        for each in priced.choices
        for arrays in [{"part": part} if each.arrays else {}]
    ]


def _summary(rows: Sequence[dict]) -> dict:
    if not rows:
        return {}
    found = {"graphs": len({row["graph"] for row in rows}), "settings": len(rows)}
    for word, some in (
        ("between", [r for r in rows if not r["is_beyond"]]),
        ("beyond", [r for r in rows if r["is_beyond"]]),
    ):
        for name in ("halo_error", "edges_error", "random_halo_error", "fastest_error"):
            found |= _errors(f"{name}_{word}", [row[name] for row in some])
        for name in ("seconds_errors", "bytes_errors", "random_seconds_errors"):
            found |= _errors(f"{name}_{word}", [error for row in some for error in row[name]])
    return found


def _errors(name: str, errors: Sequence[float]) -> dict:
    sizes = np.abs(errors)
    return {f"median_{name}": float(np.median(sizes)), f"worst_{name}": float(max(errors, key=abs))}


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="statistics against the graph itself: estimated over real, less one")
    for column in ("graph", "parts", "halo rows", "edges", "halo, no cut known", "seconds", "bytes", "fastest"):
        table.add_column(column, justify="left" if column == "graph" else "right")
    for row in rows:
        errors = [row[name] for name in ("halo_error", "edges_error", "random_halo_error")]
        errors += [max(row[name], key=abs) for name in ("seconds_errors", "bytes_errors")] + [row["fastest_error"]]
        table.add_row(row["graph"], str(row["num_parts"]), *(f"{error:+.0%}" for error in errors))
    Console().print(table)
