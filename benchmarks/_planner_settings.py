"""The settings of `planner`: six emulated clusters, and on each ten pairs of a graph and a model used nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from pydantic import PositiveFloat

from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import MBIT
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.machine import Link

_CLUSTERS: dict[str, list[tuple[float, float | None]]] = {  # of every host: cores, Mbit/s (None: no limit)
    "even": [(0.6, 400)] * 3,
    "uneven": [(0.9, 400), (0.5, 400), (0.3, 150)],
    "slow links": [(0.6, 40)] * 3,
    "one fast": [(1.1, 250), (0.3, 250), (0.3, 250)],
    "unlimited": [(0.7, None), (0.6, None), (0.4, None)],
    "long quotas": [(0.6, 400), (0.6, 400), (0.4, 400)],
}
LONG_PERIODS = {"long quotas": 100_000}  # us in which a host has its share of processor time, where not as usual
_MODELS: dict[str, tuple[str, ModelSpec]] = {  # by row: graph, model
    "gcn 2x96 actor": ("actor", ModelSpec(kind="gcn", num_layers=2, hidden_channels=96)),
    "sage 3x48 citation_dblp": ("citation_dblp", ModelSpec(kind="sage", num_layers=3, hidden_channels=48)),
    "gat 2x48 squirrel": ("squirrel_filtered", ModelSpec(kind="gat", num_layers=2, hidden_channels=48)),
    "gin 3x96 johns_hopkins": ("fb100_johns_hopkins55", ModelSpec(kind="gin", num_layers=3, hidden_channels=96)),
    "gat 3x32 cora_ml": ("cora_ml", ModelSpec(kind="gat", num_layers=3, hidden_channels=32)),
    "tagcn 2x48 sbm": ("sbm", ModelSpec(kind="tagcn", num_layers=2, hidden_channels=48)),
    "gcn 3x192 sbm": ("sbm", ModelSpec(kind="gcn", num_layers=3, hidden_channels=192)),
    "sage 4x96 dense": ("dense", ModelSpec(kind="sage", num_layers=4, hidden_channels=96)),
    "sage 2x96 rmat": ("rmat", ModelSpec(kind="sage", num_layers=2, hidden_channels=96)),
    "gcn 4x48 rmat": ("rmat", ModelSpec(kind="gcn", num_layers=4, hidden_channels=48, dropout=0.5)),
}
FAMILIES: dict[str, dict[str, bool]] = {  # by name: techniques that are in every plan of it, or in none
    "rows, sent": {"halo_exchange": True, "feature_slices": False, "replicas": False},
    "rows, some made": {"halo_exchange": True, "feature_slices": False, "replicas": True},
    "columns": {"feature_slices": True, "halo_exchange": False},
}
ONE_HOST = "one host"
NUM_ROUNDS = 6
FAR = (1.25, 1.1, 1.07, 1.05)  # times as long as the fastest after each round: not run again
RUN_S = 3.0  # of training in a run
MIN_EPOCHS, MAX_EPOCHS = 7, 400


@dataclass(frozen=True)
class Cell:
    """A plan of the grid.

    Args:
        hosts: numbers of those that take part.
        family: of `FAMILIES`, or `ONE_HOST`.
    """

    hosts: tuple[int, ...]
    family: str

    @property
    def name(self) -> str:
        """As files have it."""
        return f"{'_'.join(map(str, self.hosts))} {self.family}".replace(", ", " ").replace(" ", "_")


@dataclass(frozen=True)
class Setting:
    """A job without pins on a cluster."""

    name: str
    cluster: str
    job: Job

    def fingerprint(self) -> str:
        """Of what its figures are of; where a graph lies is not part of it, which one is in the name."""
        job = self.job.model_dump(mode="json", exclude={"graph": {"path"}})
        limits = ["equal hosts once", NUM_ROUNDS, FAR, RUN_S, MIN_EPOCHS, MAX_EPOCHS, LONG_PERIODS.get(self.cluster)]
        return fingerprint_of([self.name, _CLUSTERS.get(self.cluster), job, FAMILIES, limits])


def settings_on(cluster: str, quick: bool) -> list[Setting]:
    """Those of a cluster, whether their graphs are here or not."""
    if quick:
        spec = RmatGraph(source="rmat", num_nodes=600, num_edges=6_000, num_features=16)
        return [_setting("gcn small", cluster, spec, ModelSpec(kind="gcn", num_layers=2, hidden_channels=32))]
    return [_setting(name, cluster, _graph(graph), model) for name, (graph, model) in _MODELS.items()]


def clusters(quick: bool) -> dict[str, Cluster]:
    """By name, not yet profiled. The quick form's devices are those of the catalog, and nothing is run there."""
    if quick:
        return {"catalog": _cluster("catalog", [(1.0, 8000)] * 2, ["rtx-3090", "t4"])}
    return {name: _cluster(name, hosts, ["t4"] * len(hosts)) for name, hosts in _CLUSTERS.items()}


def cells(hosts: Sequence[HostSpec]) -> Iterator[Cell]:
    """Every subset of the hosts in every family, of equal hosts the first ones; a host alone has one family only."""
    kinds = [(host.cpu_cores, host.link, [device.catalog for device in host.devices]) for host in hosts]
    kind_of, seen = [kinds.index(kind) for kind in kinds], set[tuple[int, ...]]()
    for size in range(1, len(hosts) + 1):
        for chosen in combinations(range(len(hosts)), size):
            alike = tuple(sorted(kind_of[number] for number in chosen))
            if alike not in seen:
                seen.add(alike)
                yield from (Cell(chosen, family) for family in (FAMILIES if size > 1 else [ONE_HOST]))


def job_in(cell: Cell, setting: Setting) -> Job:
    """A setting's job, pinned to a cell: to all hosts of its subset, and to its family."""
    pin = PinnedDecisions(num_workers=len(cell.hosts), techniques=FAMILIES.get(cell.family, {}))
    return setting.job.model_copy(update={"pin": pin, "name": cell.name})


def _setting(name: str, cluster: str, graph: GraphSpec, model: ModelSpec) -> Setting:
    job = Job(schema_version=1, name="chosen", graph=graph, model=model, training=TrainingSpec())
    return Setting(f"{name} on {cluster}", cluster, job)


def _cluster(name: str, hosts: list[tuple[float, float | None]], devices: list[str]) -> Cluster:
    specs = tuple(
        HostSpec(
            name=f"h{index}",
            devices=(DeviceSpec(catalog=device),),  # stands in until the hosts are profiled
            cpu_cores=PositiveFloat(cores),
            link=Link(bytes_per_s=PositiveFloat(rate * MBIT)) if rate else None,
        )
        for index, ((cores, rate), device) in enumerate(zip(hosts, devices, strict=True))
    )
    return Cluster(schema_version=1, name=name, hosts=specs)


def _graph(name: str) -> GraphSpec:
    if name == "sbm":
        return SbmGraph(
            source="sbm", num_nodes=14_000, average_degree=22, num_features=80, num_classes=12, homophily=0.85, seed=25
        )
    if name == "dense":
        return SbmGraph(
            source="sbm", num_nodes=5_000, average_degree=90, num_features=160, num_classes=6, homophily=0.5, seed=25
        )
    if name == "rmat":
        return RmatGraph(source="rmat", num_nodes=12_000, num_edges=210_000, num_features=72, seed=25)
    return NpzGraph(source="npz", path=DATASETS / f"{name}.npz")
