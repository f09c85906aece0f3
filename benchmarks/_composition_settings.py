"""The settings of `composition`: emulated clusters, graphs with models, and the plans that are compared on each."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import unprofiled
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec

_CLUSTERS: dict[str, list[tuple[float, float]]] = {  # of every host: cores, Mbit/s
    "even": [(0.4, 1000)] * 4,
    "narrow": [(0.55, 100)] * 3,
    "uneven": [(0.8, 1000), (0.4, 1000), (0.4, 200), (0.2, 200)],
}
_MODELS: dict[str, tuple[str, ModelSpec]] = {  # by row: graph, model
    "gcn sbm": ("sbm", ModelSpec(kind="gcn", num_layers=3, hidden_channels=128)),
    "sage rmat": ("rmat", ModelSpec(kind="sage", num_layers=3, hidden_channels=64)),
    "gcn fb100_cornell5": ("fb100_cornell5", ModelSpec(kind="gcn", num_layers=3, hidden_channels=128)),
}
_ONE_MORE = ("narrow", "gat amazon_photo", ("amazon_photo", ModelSpec(kind="gat", num_layers=2, hidden_channels=64)))
LAYOUTS = ("halo_exchange", "feature_slices")
SINGLES = ("first_aggregation", "feature_cache", "replicas", "overlap", "direct_sum")
"""Exact techniques, of which a single one is chosen beside a layout. The order of operators and the format of features
are free in all plans, which makes the rivals stronger."""
COMPOSITION, ONE_HOST, SINGLE = "composition", "one host", "single: "
NUM_ROUNDS = 2
RUN_S = 4.0  # of training in a run
MIN_EPOCHS, MAX_EPOCHS = 7, 60
NUM_SINGLES = 2  # of single techniques so many are measured, those predicted to be fastest


@dataclass(frozen=True)
class Row:
    """A graph and a model on a cluster, with a job for every plan that is compared."""

    name: str
    cluster: str
    jobs: dict[str, Job]

    @property
    def graph(self) -> GraphSpec:
        """That of all jobs."""
        return self.jobs[COMPOSITION].graph

    def fingerprint(self) -> str:
        """Of the settings that its figures are of; where a graph lies is not one of them, which one is in the name."""
        jobs = {name: job.model_dump(mode="json", exclude={"graph": {"path"}}) for name, job in self.jobs.items()}
        limits = [NUM_ROUNDS, RUN_S, MIN_EPOCHS, MAX_EPOCHS, NUM_SINGLES]
        return fingerprint_of([self.name, _CLUSTERS[self.cluster], jobs, limits])


def rows_on(cluster: str, quick: bool) -> list[Row]:
    """The rows of a cluster, whether their graphs are here or not."""
    if quick:
        return [_row(cluster, "gcn small", "small", ModelSpec(kind="gcn", num_layers=2, hidden_channels=16))]
    rows = [_row(cluster, name, *each) for name, each in _MODELS.items()]
    where, name, each = _ONE_MORE
    return [*rows, _row(cluster, name, *each)] if cluster == where else rows


def clusters(quick: bool) -> dict[str, Cluster]:
    """By name, not yet profiled."""
    names = ("narrow",) if quick else _CLUSTERS
    return {name: _cluster(name) for name in names}


def _cluster(name: str) -> Cluster:
    return unprofiled(name, _CLUSTERS[name])


def _row(cluster: str, name: str, graph: str, model: ModelSpec) -> Row:
    pins = {COMPOSITION: PinnedDecisions(), ONE_HOST: PinnedDecisions(num_workers=1)}
    pins |= {f"{SINGLE}{each}": PinnedDecisions(techniques=_only(each)) for each in (*LAYOUTS, *SINGLES)}
    jobs = {
        pinned: Job(schema_version=1, name=pinned, graph=_graph(graph), model=model, training=TrainingSpec(), pin=pin)
        for pinned, pin in pins.items()
    }
    return Row(f"{name} on {cluster}", cluster, jobs)


def _only(name: str) -> dict[str, bool]:
    """Pins by which nothing takes part but a technique, its layout, and what is free."""
    layout = name if name in LAYOUTS else LAYOUTS[0]
    return {each: each in (name, layout) for each in (*LAYOUTS, *SINGLES)}


def _graph(name: str) -> GraphSpec:
    if name == "small":
        return SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=16, num_classes=4)
    if name == "sbm":
        return SbmGraph(
            source="sbm", num_nodes=30_000, average_degree=30, num_features=128, num_classes=16, homophily=0.8
        )
    if name == "rmat":
        return RmatGraph(source="rmat", num_nodes=20_000, num_edges=300_000, num_features=96)
    return NpzGraph(source="npz", path=DATASETS / f"{name}.npz")
