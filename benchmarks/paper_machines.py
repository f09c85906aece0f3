"""What if: the machines of CaPGNN, x2 to x8, by the catalog's table 1 figures, beside the paper's own speed-ups.

Every row is a model and a graph on one group of devices. The base is METIS in equal parts with a plain halo exchange;
the variants give shares by speed, then prune halos (RAPA), then reuse embeddings for three of four epochs and let
exchanges overlap computation, all under the base's order of operators and feature format. All of ours are predictions
for one host whose devices exchange rows through its memory; the paper's are seconds it measured. Shape and order can
be compared, seconds cannot: rows travel at the pace of a group's slowest device on all ways, so communication does
not tell devices apart as in equation 13; the graphs are partly stand-ins (`stands_for` says of what), and the paper's
baseline exchanges input features in every epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks._capgnn import GROUPS, speedup
from benchmarks._common import DATASETS
from planner.graph import Graph
from planner.job import GraphSpec, Job, ModelKind, ModelSpec, NpzGraph, PinnedDecisions, SbmGraph
from planner.loaders import load_graph
from planner.rapa.prune import balance_rows
from planner.what_if import Variant, one_host, plan_variants, prune_partition

_HIDDEN, _NUM_LAYERS, _INTERVAL = 256, 3, 4  # as the paper's section 5.1; r is the issue's
BASE, ALL = "equal parts", "by speed, pruned, r = 4"
VARIANTS: dict[str, dict] = {
    "by speed": {"balance": "speed", "overlap": False},
    "by speed, pruned": {"balance": "speed", "prune": "rapa", "overlap": False},
    ALL: {"balance": "speed", "prune": "rapa", "refresh_interval": _INTERVAL},
}


def main(quick: bool) -> dict:
    """Plans every row in all variants."""
    skipped: list[str] = []
    rows = [
        row
        for label, graph, stands_for in _graphs(quick, skipped)
        for kind in _kinds(quick)
        for row in _rows(graph, label, stands_for, kind, quick)
    ]
    _show(rows)
    fitting = [row for row in rows if ALL in row["speedups"]]
    return {
        "rank_correlation": _rank_correlation(fitting),
        "rank_correlation_over_groups": _over(fitting, ("model", "dataset")),
        "rank_correlation_over_graphs": _over(fitting, ("model", "group")),
        "speedup": _geometric_mean([row["speedups"][ALL] for row in fitting]),
        "paper_speedup": _geometric_mean([row["paper_speedup"] for row in fitting]),
        "skipped": skipped,
        "rows": rows,
    }


def _kinds(quick: bool) -> tuple[ModelKind, ...]:
    return ("gcn",) if quick else ("gcn", "sage")


def _graphs(quick: bool, skipped: list[str]) -> Iterator[tuple[str, Graph, str]]:
    """(the paper's label, graph, what it stands for), one at a time: the largest take a gigabyte."""
    if quick:
        small = SbmGraph(source="sbm", num_nodes=2000, average_degree=10.0, num_features=64, num_classes=7)
        yield "Fr", load_graph(small), "Flickr, a generated graph of a fortieth of its size"
        return
    for label, spec, stands_for in _SPECS:
        if isinstance(spec, NpzGraph) and not spec.path.exists():
            skipped.append(f"{label}: {spec.path.name} is not part of the repository")
            continue
        yield label, load_graph(spec), stands_for


_SPECS: tuple[tuple[str, GraphSpec, str], ...] = (
    (
        "Cl",
        NpzGraph(source="npz", path=DATASETS / "cora_full.npz", split="random", synthetic_feature_width=8710),
        "CoraFull itself, with drawn features of its width",
    ),
    (
        "Cs",
        NpzGraph(source="npz", path=DATASETS / "coauthor_physics.npz", split="random"),
        "CoauthorPhysics itself",
    ),
    (
        "Fr",
        SbmGraph(source="sbm", num_nodes=89_250, average_degree=10.08, num_features=500, num_classes=7),
        "Flickr, a generated graph of its size",
    ),
    (
        "Rt",
        SbmGraph(source="sbm", num_nodes=60_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78),
        "Reddit, a generated graph of a quarter of its vertices and a twentieth of its edges",
    ),
)


def _rows(graph: Graph, label: str, stands_for: str, kind: ModelKind, quick: bool) -> Iterator[dict]:
    for group, devices in GROUPS.items():
        if quick and group not in ("x2", "x5", "x8"):
            continue
        yield _row(graph, label, kind, group, devices) | {"stands_for": stands_for}


def _row(graph: Graph, label: str, kind: ModelKind, group: str, devices: tuple[str, ...]) -> dict:
    cluster = one_host(group, devices)
    base = plan_variants({BASE: _job(kind, balance="equal", overlap=False)}, cluster, graph)[BASE]
    row = {
        "model": kind,
        "dataset": label,
        "graph": graph.name,
        "group": group,
        "paper_speedup": speedup(kind, label, group),
        "speedups": {},
    }
    if base.plan is None or base.partition is None:
        return row | {"does_not_fit": {BASE: base.reason}}
    sparse = base.plan.decision.sparse_features
    jobs = {name: _job(kind, sparse_features=sparse, **pins) for name, pins in VARIANTS.items()}
    variants = plan_variants(jobs, cluster, graph)
    prunings = {
        f"{group}, {name}": prune_partition(found.plan, found.partition, graph)
        for name, found in {BASE: base, "by speed": variants["by speed"]}.items()
        if found.plan and found.partition
    }
    print(f"{kind} {graph.name} {group}: planned", flush=True)
    return row | {
        "base_epoch_s": base.epoch_s,
        "speedups": {name: _gain(base, found) for name, found in variants.items() if found.plan},
        "fidelity": {name: found.plan.fidelity for name, found in variants.items() if found.plan},
        "does_not_fit": {name: found.reason for name, found in variants.items() if not found.plan},
        "rapa": balance_rows(prunings),
    }


def _gain(base: Variant, found: Variant) -> float:
    assert base.epoch_s
    assert found.epoch_s
    return base.epoch_s / found.epoch_s


def _job(kind: ModelKind, **pins) -> Job:
    """A job of the paper's model; its graph is loaded already, so what it names here does not matter."""
    pin = PinnedDecisions(partitioner="metis", op_order="multiply_first", **pins)
    model = ModelSpec(kind=kind, num_layers=_NUM_LAYERS, hidden_channels=_HIDDEN)
    return Job(schema_version=1, graph=SbmGraph(source="sbm"), model=model, fidelity=pin.needs, pin=pin)


def _rank_correlation(rows: list[dict]) -> float | None:
    """Spearman's, of the paper's speed-ups and ours; None where one side is all alike or there are under three."""
    pairs = np.array([(row["paper_speedup"], row["speedups"][ALL]) for row in rows])
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)


def _over(rows: list[dict], keys: tuple[str, str]) -> dict[str, float | None]:
    """The correlation within every set of rows that agree in these keys."""
    names = sorted({tuple(row[key] for key in keys) for row in rows})
    return {
        " ".join(name): _rank_correlation([row for row in rows if tuple(row[key] for key in keys) == name])
        for name in names
    }


def _geometric_mean(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def _show(rows: list[dict]) -> None:
    table = Table(title="predicted on CaPGNN's machines: largest lambda over the mean, and speed-ups over equal parts")
    columns = ("row", "group", "max/mean", "pruned", "max/mean by speed", "pruned", *VARIANTS, "the paper")
    for column in columns:
        table.add_column(column, justify="left" if column in ("row", "group") else "right")
    for row in rows:
        balance = [f"{r[key]:.2f}" for r in row.get("rapa", ()) for key in _BALANCE_KEYS]
        gains = [f"{row['speedups'][name]:.2f}x" if name in row["speedups"] else "-" for name in VARIANTS]
        balance += ["-"] * (2 * len(_BALANCE_KEYS) - len(balance))
        name = f"{row['model']} {row['dataset']}"
        table.add_row(name, row["group"], *balance, *gains, f"{row['paper_speedup']:.2f}x")
    Console().print(table)


_BALANCE_KEYS = ("max_over_mean_before", "max_over_mean_after")
