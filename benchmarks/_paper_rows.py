"""The papers' tables as jobs on machines: graphs as statistics, systems as techniques that are pinned.

Nothing here is fitted to a table. Graphs have the counts that the papers print, a power law of degrees with the
exponent 2.5, and the cuts that are known: of Reddit those that Emma prints (its table I), of CoraFull and
CoauthorPhysics those that are measured on the graphs themselves. All others are taken to be cut at random.
A system does what its paper names. No paper names features that are aggregated once and for all, so none does it; the
order of operators is the faster one where the paper names none. NeutronTP trains the decoupled form of each model, as
its section 4.1.2 says. It alone keeps what does not fit in the host's memory, and goes through it in chunks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks._capgnn import GROUPS
from benchmarks._common import DATASETS
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.statistics.contract import Cut, Statistics
from gnnplan.planner.statistics.halo import Halos
from gnnplan.planner.statistics.machine import Machine, machine_of
from gnnplan.planner.statistics.measure import measure
from gnnplan.planner.what_if import one_host
from gnnplan.profiles.machine import Link

TABLES = DATASETS.parent / "papers" / "tables"
_HALO, _SLICES = "halo_exchange", "feature_slices"
# Counted once an edge in the papers; aggregation goes both ways.
_ONE_WAY = {("neutrontp", "OPT"), ("neutrontp", "OPR"), ("capgnn", "Os"), ("emma", "Products"), ("emma", "Yelp")}
_ONE_WAY |= {("emma", "Papers100M")}
_MULTILABEL = {"Yp", "Yelp", "As"}
_REDDIT, _MEASURED = {("capgnn", "Rt"), ("emma", "Reddit")}, {"Cl": "cora_full", "Cs": "coauthor_physics"}
T4_NETWORK_BYTES_PER_S = 15e9 / 8
_T4_HOST_BYTES = 186 * 10**9  # NeutronTP, section 5.1; Emma prints none of its own hosts
_IN_MEMORY = {"offload": False, "destination_chunks": False}
_PCIE_4_X16 = 31.5e9 * 0.8  # as the catalog has pinned transfers


@dataclass(frozen=True)
class Row:
    """A printed figure, and what it is of.

    Args:
        printed: what the table says (None: the system ran out of memory).
        epochs: seconds are of so many.
        layout: the technique that shares the graph out.
    """

    name: str
    printed: float | None
    statistics: Statistics
    job: Job
    machine: Machine
    layout: str
    epochs: float = 1.0
    printed_mb: float | None = None


def why_no_tables() -> str | None:
    """Why nothing can be compared here."""
    return None if TABLES.exists() else f"{TABLES}: the papers' tables are not part of the repository"


def rows_of(name: str) -> Iterator[Row]:
    """The rows of a table that can be modelled."""
    return _TABLES[name]()


def table_names() -> tuple[str, ...]:
    """All tables."""
    return tuple(_TABLES)


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of a table by its file's name."""
    with (TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _neutrontp() -> Iterator[Row]:
    """16 hosts with a T4 each: NeutronTP is feature slices, NeutronStar a halo exchange on ranges of vertices.

    DistDGL's rows are mini-batches, and stand in `_paper_batches.py`.
    """
    for row in read_table("neutrontp_table2_systems"):
        layout = {"NeutronTP": _SLICES, "NeutronStar": _HALO}.get(row["system"])
        if layout:
            job = _job(row["model"], 2, neutrontp_width(row["dataset"]), layout, {"overlap": True})
            printed = float(row["total_s"]) if row["status"] == "ok" else None
            yield Row(row_name(row, "system"), printed, neutrontp_graph(row["dataset"]), job, t4_hosts(), layout)


def neutrontp_width(label: str) -> int:
    """Hidden channels of NeutronTP's models on a graph."""
    return next(int(row["hidden_dim"]) for row in read_table("neutrontp_table1_datasets") if row["label"] == label)


def neutrontp_graph(label: str) -> Statistics:
    """A graph of NeutronTP's table 1."""
    return _graph("neutrontp", label)


@cache
def t4_hosts() -> Machine:
    """NeutronTP's cluster."""
    return _machine("t4", 16, 1, network_bytes_per_s=T4_NETWORK_BYTES_PER_S, pinned_bytes=_T4_HOST_BYTES)


def _capgnn() -> Iterator[Row]:
    """Vanilla: METIS in equal parts, and every layer's input rows exchanged in every epoch, before it multiplies."""
    for row in read_table("capgnn_table7_overall"):
        if row["algorithm"] == "Vanilla":
            pins = {"op_order": "aggregate_first", "overlap": False}
            kind = "sage" if row["model"] == "GraphSAGE" else row["model"]
            job, machine = _job(kind, 3, 256, _HALO, pins), _group(row["group"])
            printed = float(row["total_s_200_epochs"]) if row["status"] == "ok" else None
            graph = _graph("capgnn", row["dataset"])
            yield Row(row_name(row, "group"), printed, graph, job, machine, _HALO, epochs=200)


def _emma_total() -> Iterator[Row]:
    """Seconds to convergence, over as many epochs as the printed throughput makes of them.

    PipeGCN is a halo exchange beside computing, BNS-GCN one of a tenth of the halo rows, NeutronTP feature slices.
    """
    rates = {(r["dataset"], r["system"]): r["epochs_per_s"] for r in read_table("emma_table5_throughput")}
    for row in read_table("emma_table4_total_time"):
        layout = {"PipeGCN": _HALO, "BNS-GCN": _HALO, "NeutronTP": _SLICES}.get(row["system"])
        if layout:
            pins = {} if layout == _SLICES else {"overlap": row["system"] == "PipeGCN"}
            graph = _graph("emma", row["dataset"])
            graph = _thinned(graph, 0.1) if row["system"] == "BNS-GCN" else graph
            printed = float(row["total_s"]) if row["status"] == "ok" else None
            epochs = printed * float(rates[row["dataset"], row["system"]]) if printed else 1.0
            job, machine = _emma_job(row, layout, pins), _emma_machine(int(row["num_gpus"]))
            yield Row(row_name(row, "system"), printed, graph, job, machine, layout, epochs=epochs)


def _emma_ablation() -> Iterator[Row]:
    """Without chunks and without moving aggregates: full batches with a halo exchange. Printed epochs a second."""
    for row in read_table("emma_table10_ablation"):
        if row["chunking"] == row["moving_aggregation"] == "0":
            job = _emma_job(row, _HALO, {"overlap": False})
            seconds, megabytes = 1 / float(row["epochs_per_s"]), float(row["peak_memory_mb"])
            graph, machine = _graph("emma", row["dataset"]), _emma_machine(4)
            yield Row(row_name(row), seconds, graph, job, machine, _HALO, printed_mb=megabytes)


_TABLES = {"neutrontp_2": _neutrontp, "capgnn_7": _capgnn, "emma_4": _emma_total, "emma_10": _emma_ablation}


def row_name(row: Mapping[str, str], *more: str) -> str:
    """A row's model and graph, and further columns."""
    return " ".join(row[key] for key in ("model", "dataset", *more))


def _job(kind: str, num_layers: int, width: int, layout: str, pins: Mapping[str, Any], **model: Any) -> Job:
    pins = {key: value for key, value in pins.items() if kind.lower() != "gat" or key != "op_order"}
    kept = {} if layout == _SLICES else _IN_MEMORY
    pin = PinnedDecisions(techniques={layout: True, **kept}, balance="equal", precompute=False, **pins)
    model = {"heads": 1, **model}
    spec = ModelSpec(kind=kind.lower(), num_layers=num_layers, hidden_channels=width, **model)  # type: ignore[arg-type]
    if layout == _SLICES:
        assert spec.decoupled, kind
        spec = spec.decoupled.model_copy(update={"alpha": 0.0})  # its propagations add nothing of the first rows
    return Job(graph=SbmGraph(source="sbm"), model=spec, pin=pin)


def _emma_job(row: Mapping[str, str], layout: str, pins: Mapping[str, Any]) -> Job:
    of = next(r for r in read_table("emma_table3_hyperparameters") if r["dataset"] == row["dataset"])
    dropout = float(of["dropout"])
    return _job(row["model"], int(of["num_layers"]), int(of["hidden_units"]), layout, pins, dropout=dropout)


def _machine(
    device: str,
    hosts: int,
    per_host: int,
    network_bytes_per_s: float,
    device_link: Link | None = None,
    pinned_bytes: int | None = None,
) -> Machine:
    devices = (DeviceSpec(catalog=device, count=per_host),)
    spec = HostSpec(name="host", count=hosts, devices=devices, pinned_bytes=pinned_bytes)
    network = Link(bytes_per_s=network_bytes_per_s, latency_s=50e-6)
    return machine_of(resolve(Cluster(hosts=(spec,), network=network, device_link=device_link)))


@cache
def _group(name: str) -> Machine:
    """A group of CaPGNN; rows pass through the host's memory, for its baseline uses Gloo."""
    return machine_of(resolve(one_host(name, GROUPS[name])))


@cache
def _emma_machine(num_gpus: int) -> Machine:
    link = Link(bytes_per_s=_PCIE_4_X16, latency_s=20e-6)
    return _machine("a40", max(1, num_gpus // 4), min(num_gpus, 4), 25e9, link)


_FILES = {"neutrontp": "neutrontp_table1_datasets", "capgnn": "capgnn_table5_datasets", "emma": "emma_table2_datasets"}
_NAMES = {"neutrontp": ("label", "num_vertices", "feature_dim", "num_labels")}
_USUAL_NAMES = ("label", "num_nodes", "num_features", "num_classes")


@cache
def _graph(paper: str, label: str) -> Statistics:
    key, nodes, features, classes = _NAMES.get(paper, _USUAL_NAMES)
    key = "dataset" if paper == "emma" else key
    row = next(each for each in read_table(_FILES[paper]) if each[key] == label)
    path = DATASETS / f"{_MEASURED.get(label, '')}.npz"
    if path.exists():
        spec = NpzGraph(source="npz", path=path, split="random", synthetic_feature_width=int(row[features]))
        return measure(load_graph(spec))
    return Statistics(
        name=label,
        num_nodes=int(row[nodes]),
        num_edges=int(row["num_edges"]) * (2 if (paper, label) in _ONE_WAY else 1),
        num_features=int(row[features]),
        num_classes=int(row[classes]),
        is_multilabel=label in _MULTILABEL,
        cuts=_reddit_cuts() if (paper, label) in _REDDIT else (),
    )


def _reddit_cuts() -> tuple[Cut, ...]:
    """Emma's table I: rows that a part reads over rows that it owns. Remote edges are taken to be as much less than
    those of a random partition as halo rows are, of which there are then at most N - N / P a part.
    """
    found = []
    for row in read_table("emma_table1_partition_sources"):
        parts, halo_rows = int(row["num_partitions"]), float(row["source_per_target"]) - 1
        remote = min(1.0, halo_rows / (parts - 1)) * (1 - 1 / parts)
        found.append(Cut(num_parts=parts, remote_edges=remote, halo_rows=halo_rows))
    return tuple(found)


def _thinned(of: Statistics, share: float) -> Statistics:
    """The graph with a share of the halo rows and remote edges of every cut; a random one where none is known."""
    halos, parts = Halos(of), [cut.num_parts for cut in of.cuts] or [2, 4, 24]
    cuts = (
        Cut(
            num_parts=count,
            remote_edges=share * halos.remote_edges(1 / count),
            halo_rows=share * halos.rows(1 / count) * count / of.num_nodes,
        )
        for count in parts
    )
    return of.model_copy(update={"cuts": tuple(cuts)})
