"""How long planning takes beside the first edition's, on devices of the catalog that both know.

Both plan every setting in turn, each in processes of its own that have loaded the graph already, so that a slow spell
of the machine hits both. The first edition neither left workers out nor chose replicas; that is in the comparison.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import _first_edition
from benchmarks._common import DATASETS, OUT
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.train import write_plan
from gnnplan.profiles.machine import Link

_CLUSTERS = {  # devices, bytes a second of every link
    "even": (("t4",) * 4, 1.25e8),
    "narrow": (("t4",) * 3, 1.25e7),
    "uneven": (("v100", "rtx-3090", "t4", "rtx-2060"), 1.25e9),
}
_GRAPHS: dict[str, GraphSpec] = {
    "sbm": SbmGraph(source="sbm", num_nodes=20_000, average_degree=20, num_features=128, num_classes=16),
    "rmat": RmatGraph(source="rmat", num_nodes=20_000, num_edges=400_000, num_features=128, num_classes=16),
    "fb100_cornell5": NpzGraph(source="npz", path=DATASETS / "fb100_cornell5.npz", make_undirected=True),
}
_MODELS = {
    "gcn": ModelSpec(kind="gcn", num_layers=3, hidden_channels=128),
    "sage": ModelSpec(kind="sage", num_layers=3, hidden_channels=64),
    "gat": ModelSpec(kind="gat", num_layers=2, hidden_channels=64),
}
_PAIRS = (("gcn", "sbm"), ("sage", "rmat"), ("gat", "sbm"), ("gcn", "fb100_cornell5"))
_ROUNDS = 3


def against_first_edition(quick: bool) -> list[dict[str, Any]]:
    """A row for every setting: median seconds of both, and how many times as long this edition takes.

    Without the first edition's commit in this checkout's history there is none.
    """
    if _first_edition.checkout() is None:
        return []
    settings = list(_settings())[: 1 if quick else None]
    return [_row(name, job, cluster, 1 if quick else _ROUNDS) for name, job, cluster in settings]


def mean_ratio(rows: list[dict[str, Any]]) -> float | None:
    """The geometric mean of `ratio` (None: of no rows)."""
    return math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows)) if rows else None


def _settings() -> Iterator[tuple[str, Job, Cluster]]:
    for where, (devices, rate) in _CLUSTERS.items():
        hosts = tuple(HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=each),)) for i, each in enumerate(devices))
        cluster = Cluster(schema_version=1, hosts=hosts, network=Link(bytes_per_s=rate, latency_s=5e-5))
        for model, graph in _PAIRS:
            spec = _GRAPHS[graph]
            if isinstance(spec, NpzGraph) and not spec.path.exists():
                continue
            yield f"{model} {graph} on {where}", Job(schema_version=1, graph=spec, model=_MODELS[model]), cluster


def _row(name: str, job: Job, cluster: Cluster, rounds: int) -> dict[str, Any]:
    folder = OUT / "planning" / name.replace(" ", "_")
    (folder / "cluster").mkdir(parents=True, exist_ok=True)
    cluster.save(folder / "cluster" / CLUSTER_FILE)
    cluster_path = _first_edition.with_old_profiles(folder / "cluster", folder / "before")
    graph = load_graph(job.graph)
    ours_s, theirs_s = [], []
    for _ in range(rounds):
        begin_s = time.perf_counter()
        write_plan(job, cluster, graph, folder / "plan.json")
        ours_s.append(time.perf_counter() - begin_s)
        theirs_s.append(_first_edition.plan(job, {}, cluster_path, folder / "before" / "plan.json")["planning_s"])
    ours, theirs = statistics.median(ours_s), statistics.median(theirs_s)
    return {"setting": name, "seconds": ours, "before_s": theirs, "ratio": ours / theirs}
