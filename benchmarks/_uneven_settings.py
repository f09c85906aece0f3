"""The settings of `uneven`: hosts, graphs and models, and the variants that each is planned in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import PositiveFloat

from benchmarks._common import dataset
from benchmarks._emulated_settings import MBIT
from planner.cluster import Cluster, DeviceSpec, HostSpec
from planner.job import Job, ModelSpec, NpzGraph, PinnedDecisions, SbmGraph, TrainingSpec
from profiles.errors import UserError
from profiles.machine import Link

_HOSTS = ((0.8, 1000), (0.4, 1000), (0.4, 200), (0.2, 200))  # cores, Mbit/s
_HIDDEN, _NUM_LAYERS = 256, 3
INTERVAL = 4  # r; epochs are timed in groups of as many, one of which refreshes
WARM_UP = 2  # epochs, which are not timed
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
    def comparisons(self) -> list[tuple[str, list[str]]]:
        """(base, variants compared with it)."""
        found = [
            (BASE, [v for v in self.jobs if v not in FEATURES]),
            (FEATURE_BASE, [v for v in self.jobs if v in FEATURES]),
        ]
        return [(base, variants) for base, variants in found if variants]


def rows_of(quick: bool, skipped: list[str]) -> Iterator[Row]:
    """Every graph and model; a graph that is not here is said in `skipped`."""
    for kind in ("gcn",) if quick else ("gcn", "sage"):
        for name in ("small",) if quick else ("coauthor_physics", "fb100_cornell5", "reddit-shaped"):
            try:
                graph = _graph(name)
            except UserError as error:
                skipped.append(f"{name}: {error}")
                continue
            model = ModelSpec(kind=kind, num_layers=_NUM_LAYERS, hidden_channels=16 if quick else _HIDDEN)
            # The 8415 features of coauthor_physics would travel for most of a minute in every epoch.
            features = FEATURES if kind == "gcn" and name != "coauthor_physics" else {}
            yield Row(
                f"{kind} {name}",
                {
                    variant: Job(
                        schema_version=1,
                        name=variant,
                        graph=graph,
                        model=model,
                        training=TrainingSpec(epochs=WARM_UP + INTERVAL),
                        fidelity="approximate" if variant in APPROXIMATE else "exact",
                        pin=PinnedDecisions(**{"partitioner": "metis", "op_order": "multiply_first"} | pins),
                    )
                    for variant, pins in (EXACT | APPROXIMATE | features).items()
                },
            )


def _graph(name: str) -> NpzGraph | SbmGraph:
    if name == "small":
        return SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=16, num_classes=4)
    if name == "reddit-shaped":  # a third of Reddit's vertices with its features and classes, and its homophily
        return SbmGraph(
            source="sbm", num_nodes=60_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78
        )
    return NpzGraph(source="npz", path=dataset(name))


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
