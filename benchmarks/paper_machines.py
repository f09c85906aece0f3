"""What if: the machines of CaPGNN, x2 to x8, by the catalog's table 1 figures, beside the paper's own speed-ups.

Every row is a model and a graph on one group of devices. The base is METIS in equal parts with a plain halo exchange;
the variants give shares by speed, then prune halos (RAPA), then reuse embeddings for three of four epochs and let
exchanges overlap computation, all under the base's order of operators and feature format. All of ours are predictions
for one host whose devices exchange rows through its memory; the paper's are seconds it measured. Shape and order can
be compared, seconds cannot: rows travel at the pace of a group's slowest device on all ways, so communication does
not tell devices apart as in equation 13; the graphs are partly stand-ins (`stands_for` says of what), and the paper's
baseline exchanges input features in every epoch.

A row is kept as soon as it is planned, and not planned again by the same code: a run may be cut short and go on later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks._capgnn import GROUPS, speedup
from benchmarks._common import DATASETS, fingerprint_of, operators_of, why_absent
from benchmarks._pruning import balance_rows, prune_plan
from benchmarks._results import about, code, keep, kept_parts, record_of
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.what_if import Variant, one_host, plan_variants

_FILE = "paper_machines"
_HIDDEN, _NUM_LAYERS, _INTERVAL = 256, 3, 4  # as the paper's section 5.1; r is the issue's
BASE, ALL = "equal parts", "by speed, pruned, r = 4"
VARIANTS: dict[str, dict] = {
    "by speed": {"balance": "speed", "overlap": False},
    "by speed, pruned": {"balance": "speed", "prune": "rapa", "overlap": False},
    ALL: {"balance": "speed", "prune": "rapa", "refresh_interval": _INTERVAL},
}


@dataclass(frozen=True)
class _Of:
    """What a row is of: a model and a graph (by the paper's label) on a group of devices."""

    kind: ModelKind
    label: str
    group: str

    @property
    def name(self) -> str:
        """As results have it."""
        return f"{self.kind} {self.label} {self.group}"


def main(quick: bool) -> dict:
    """Plans every row in all variants; the quick form keeps none."""
    specs = {"Fr": _SMALL} if quick else {label: found for label, found in _SPECS.items() if not _why_absent(label)}
    kinds: tuple[ModelKind, ...] = ("gcn",) if quick else ("gcn", "sage")
    groups = ("x2", "x3", "x5") if quick else tuple(GROUPS)
    wanted = [_Of(kind, label, group) for label in specs for kind in kinds for group in groups]
    settings = {row.name: _fingerprint(row, specs[row.label][0]) for row in wanted}
    found = {} if quick else kept_parts(_FILE, "rows", "row", settings)
    for label, (spec, stands_for) in specs.items():
        missing = [row for row in wanted if row.label == label and row.name not in found]
        graph = load_graph(spec) if missing else None  # one at a time: the largest take a gigabyte
        for row in missing:
            assert graph is not None
            of = {"row": row.name, "settings": settings[row.name], **about(), "stands_for": stands_for}
            found[row.name] = of | _planned(row, graph)
            if not quick:
                keep(_FILE, record_of(_FILE, _summary(list(found.values()))))
    rows = [found[row.name] for row in wanted]
    _show(rows)
    return _summary(rows)


def _summary(rows: Sequence[dict]) -> dict:
    fitting = [row for row in rows if ALL in row["speedups"]]
    return {
        "rank_correlation": _rank_correlation(fitting),
        "rank_correlation_over_groups": _over(fitting, ("model", "dataset")),
        "rank_correlation_over_graphs": _over(fitting, ("model", "group")),
        "speedup": _geometric_mean([row["speedups"][ALL] for row in fitting]),
        "paper_speedup": _geometric_mean([row["paper_speedup"] for row in fitting]),
        "skipped": [reason for label in _SPECS if (reason := _why_absent(label))],
        "rows": list(rows),
    }


def _fingerprint(row: _Of, spec: GraphSpec) -> str:
    """Of all that its figures are of; they are predictions, so the code is part of it."""
    graph = spec.model_dump(mode="json", exclude={"path"})
    return fingerprint_of([row.name, graph, GROUPS[row.group], VARIANTS, _HIDDEN, _NUM_LAYERS, code()])


def _why_absent(label: str) -> str | None:
    return why_absent(label, _SPECS[label][0])


_SMALL: tuple[GraphSpec, str] = (
    SbmGraph(source="sbm", num_nodes=2000, average_degree=10.0, num_features=64, num_classes=7),
    "Flickr, a generated graph of a fortieth of its size",
)
_SPECS: dict[str, tuple[GraphSpec, str]] = {
    "Cl": (
        NpzGraph(source="npz", path=DATASETS / "cora_full.npz", split="random", synthetic_feature_width=8710),
        "CoraFull itself, with drawn features of its width",
    ),
    "Cs": (
        NpzGraph(source="npz", path=DATASETS / "coauthor_physics.npz", split="random"),
        "CoauthorPhysics itself",
    ),
    "Fr": (
        SbmGraph(source="sbm", num_nodes=89_250, average_degree=10.08, num_features=500, num_classes=7),
        "Flickr, a generated graph of its size",
    ),
    "Rt": (
        SbmGraph(source="sbm", num_nodes=60_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78),
        "Reddit, a generated graph of a quarter of its vertices and a twentieth of its edges",
    ),
}


def _planned(row: _Of, graph: Graph) -> dict:
    cluster, size = one_host(row.group, GROUPS[row.group]), len(GROUPS[row.group])
    base = plan_variants({BASE: _job(row.kind, size, balance="equal", overlap=False)}, cluster, graph)[BASE]
    result = {
        "model": row.kind,
        "dataset": row.label,
        "graph": graph.name,
        "group": row.group,
        "paper_speedup": speedup(row.kind, row.label, row.group),
        "speedups": {},
    }
    if base.plan is None or base.partition is None:
        return result | {"does_not_fit": {BASE: base.reason}}
    _, _, sparse = operators_of(base.plan)
    jobs = {name: _job(row.kind, size, sparse_features=sparse, **pins) for name, pins in VARIANTS.items()}
    variants = plan_variants(jobs, cluster, graph)
    prunings = {
        f"{row.group}, {name}": prune_plan(found.plan, found.partition, graph)
        for name, found in {BASE: base, "by speed": variants["by speed"]}.items()
        if found.plan and found.partition
    }
    print(f"{row.kind} {graph.name} {row.group}: planned", flush=True)
    return result | {
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


def _job(kind: ModelKind, num_workers: int, **pins) -> Job:
    """A job of the paper's model on all workers; its graph is loaded already, so what it names does not matter."""
    pin = PinnedDecisions(
        partitioner="metis",
        op_order="multiply_first",
        num_workers=num_workers,
        dependencies="communicate",
        **pins,
    )
    model = ModelSpec(kind=kind, num_layers=_NUM_LAYERS, hidden_channels=_HIDDEN)
    return Job(schema_version=1, graph=SbmGraph(source="sbm"), model=model, fidelity=str(pin.needs[0]), pin=pin)


def _rank_correlation(rows: Sequence[dict]) -> float | None:
    """Spearman's, of the paper's speed-ups and ours; None where one side is all alike or there are under three."""
    pairs = np.array([(row["paper_speedup"], row["speedups"][ALL]) for row in rows])
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)


def _over(rows: Sequence[dict], keys: tuple[str, str]) -> dict[str, float | None]:
    """The correlation within every set of rows that agree in these keys."""
    names = sorted({tuple(row[key] for key in keys) for row in rows})
    return {
        " ".join(name): _rank_correlation([row for row in rows if tuple(row[key] for key in keys) == name])
        for name in names
    }


def _geometric_mean(values: list[float]) -> float | None:
    return math.exp(float(np.mean(np.log(values)))) if values else None


def _show(rows: Sequence[dict]) -> None:
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
