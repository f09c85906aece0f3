"""The settings of `uneven`: hosts, graphs and models, and the variants that each is planned in."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import PositiveFloat

from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import MBIT
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.machine import Link

_HOSTS = ((0.8, 1000), (0.4, 1000), (0.4, 200), (0.2, 200))  # cores, Mbit/s
_HIDDEN, _NUM_LAYERS = 256, 3
INTERVAL = 4  # r; epochs are timed in groups of as many, one of which refreshes
WARM_UP = 2  # epochs, which are not timed
NUM_ROUNDS = 2
RUN_S = 20.0  # of training in a run, of as many groups of `INTERVAL` epochs as that takes
MIN_GROUPS, MAX_GROUPS = 1, 3
ACCURACY_EPOCHS, SEEDS = 200, (0, 1, 2)
BASE = "equal parts"
_OFF = {"overlap": False}
EXACT: dict[str, dict] = {
    BASE: {"balance": "equal", **_OFF},
    "overlap alone": {"balance": "equal", "overlap": True},
    "by speed": {"balance": "speed", **_OFF},
    "refined": {"balance": "refined", **_OFF},
    "refined, overlap": {"balance": "refined", "overlap": True},
    "all exact": {},
}
_STALE = {"refresh_interval": INTERVAL}
APPROXIMATE: dict[str, dict] = {
    "pruned alone": {"balance": "equal", "prune": "rapa", **_OFF},
    "r = 4 alone": {"balance": "equal", **_OFF, **_STALE},
    "all but pruning": {**_STALE},
    "all but r = 4": {"prune": "rapa"},
    "all but shares": {"balance": "equal", "prune": "rapa", **_STALE},
    "all but overlap": {"prune": "rapa", **_OFF, **_STALE},
    "all": {"prune": "rapa", **_STALE},
}
ALL_EXACT, ALL_BUSY, ALL = "all exact", "refined, overlap", "all"
_ALL_BUT = "all but "
REMOVED = {name.removeprefix(_ALL_BUT): name for name in APPROXIMATE if name.startswith(_ALL_BUT)}
"""Axis to the variant that is all but it."""
FEATURE_BASE = "equal parts, A(X)W"
_EVERY_EPOCH = {"balance": "equal", "op_order": "aggregate_first", "precompute": False, **_OFF}
FEATURES: dict[str, dict] = {
    FEATURE_BASE: {"feature_cache": False, **_EVERY_EPOCH},
    "feature cache alone": {"feature_cache": True, **_EVERY_EPOCH},
}


@dataclass(frozen=True)
class Row:
    """A graph and a model, in every variant."""

    name: str
    jobs: dict[str, Job]

    @property
    def graph(self) -> GraphSpec:
        """That of all variants."""
        return next(iter(self.jobs.values())).graph

    @property
    def comparisons(self) -> list[tuple[str, list[str]]]:
        """(base, variants compared with it)."""
        found = [
            (BASE, [v for v in self.jobs if v not in FEATURES]),
            (FEATURE_BASE, [v for v in self.jobs if v in FEATURES]),
        ]
        return [(base, variants) for base, variants in found if variants]

    def fingerprint(self) -> str:
        """Of the settings that its figures are of; where a graph lies is not one of them, which one is in the name."""
        jobs = {name: job.model_dump(mode="json", exclude={"graph": {"path"}}) for name, job in self.jobs.items()}
        timing = [NUM_ROUNDS, RUN_S, MIN_GROUPS, MAX_GROUPS, INTERVAL, WARM_UP, ACCURACY_EPOCHS]
        return fingerprint_of([self.name, jobs, _HOSTS, timing])


def rows_of(quick: bool) -> list[Row]:
    """Every graph and model, whether its graph is here or not."""
    names = ("small",) if quick else ("coauthor_physics", "fb100_cornell5", "reddit-shaped")
    kinds: tuple[ModelKind, ...] = ("gcn",) if quick else ("gcn", "sage")
    return [_row(kind, name, 16 if quick else _HIDDEN) for kind in kinds for name in names]


def _row(kind: ModelKind, name: str, hidden: int) -> Row:
    # The 8415 features of coauthor_physics would travel for most of a minute in every epoch.
    features = FEATURES if kind == "gcn" and name != "coauthor_physics" else {}
    jobs = {
        variant: Job(
            schema_version=1,
            name=variant,
            graph=_graph(name),
            model=ModelSpec(kind=kind, num_layers=_NUM_LAYERS, hidden_channels=hidden),
            training=TrainingSpec(epochs=WARM_UP + INTERVAL),
            fidelity="approximate" if variant in APPROXIMATE else "exact",
            pin=PinnedDecisions(
                **{"partitioner": "metis", "op_order": "multiply_first", "dependencies": "communicate"} | pins
            ),
        )
        for variant, pins in (EXACT | APPROXIMATE | features).items()
    }
    return Row(f"{kind} {name}", jobs)


def _graph(name: str) -> NpzGraph | SbmGraph:
    if name == "small":
        return SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=16, num_classes=4)
    if name == "reddit-shaped":  # a quarter of Reddit's vertices with its features and classes, and its homophily
        return SbmGraph(
            source="sbm", num_nodes=60_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78
        )
    return NpzGraph(source="npz", path=DATASETS / f"{name}.npz")


def uneven_cluster() -> Cluster:
    """Its hosts, not yet profiled."""
    return Cluster(
        schema_version=1,
        name="uneven",
        hosts=tuple(
            HostSpec(
                name=f"h{index}",
                devices=(DeviceSpec(catalog="t4"),),  # stands in until the hosts are profiled
                cpu_cores=PositiveFloat(cores),
                link=Link(bytes_per_s=PositiveFloat(rate * MBIT)),
            )
            for index, (cores, rate) in enumerate(_HOSTS)
        ),
    )
