"""The settings of `prediction`: emulated clusters, and groups of (graph, model, cluster) with several plans each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import PositiveFloat

from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import MBIT
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.machine import Link

UNLIMITED = None
UNPINNED = "metis"  # nothing but that every worker has its share
_CLUSTERS: dict[str, list[tuple[float, float | None, int]]] = {  # of every host: cores, Mbit/s, workers
    "two even": [(0.8, UNLIMITED, 1)] * 2,
    "two uneven": [(0.9, 1000, 1), (0.45, 500, 1)],
    "two far": [(0.7, 100, 1)] * 2,
    "two shared": [(0.8, 500, 2)] * 2,
    "three even": [(0.55, 500, 1)] * 3,
    "three uneven": [(0.8, 1000, 1), (0.4, 200, 1), (0.4, 200, 1)],
    "three unlimited": [(0.7, UNLIMITED, 1), (0.5, UNLIMITED, 1), (0.35, UNLIMITED, 1)],
    "four even": [(0.4, 1000, 1)] * 4,
    "four uneven": [(0.7, 1000, 1), (0.4, 1000, 1), (0.4, 200, 1), (0.25, 200, 1)],
}
GROUPS_PER_CLUSTER = 2
TRAINING_S = 3.0  # of one round
MIN_EPOCHS, MAX_EPOCHS = 8, 160
NUM_ROUNDS = 3
_KINDS = ("gcn", "sage", "gcn", "sage", "gat")
_WIDTHS = (64, 128, 256, 512)


@dataclass(frozen=True)
class Group:
    """One graph, model and cluster; its jobs differ in pinned decisions alone, so that plans can be ranked."""

    cluster: str
    name: str
    jobs: tuple[Job, ...]


def clusters() -> dict[str, Cluster]:
    """The emulated clusters by name; the catalog device stands in until they are profiled."""
    return {
        name: Cluster(
            schema_version=1,
            name=name,
            hosts=tuple(
                HostSpec(
                    name=f"h{index}",
                    devices=(DeviceSpec(catalog="t4", count=num_workers),),
                    cpu_cores=PositiveFloat(cores),
                    link=Link(bytes_per_s=PositiveFloat(rate * MBIT)) if rate else None,
                )
                for index, (cores, rate, num_workers) in enumerate(hosts)
            ),
        )
        for name, hosts in _CLUSTERS.items()
    }


def groups_of(cluster: str) -> list[Group]:
    """The benchmark's groups on one cluster."""
    return [group for group in groups() if group.cluster == cluster]


def fingerprint(cluster: str, its_groups: Sequence[Group]) -> str:
    """Of the settings that a cluster's figures are of; where a graph lies is not one of them."""
    jobs = [
        (group.name, job.model_dump(mode="json", exclude={"graph": {"path"}}))
        for group in its_groups
        for job in group.jobs
    ]
    return fingerprint_of([cluster, _CLUSTERS[cluster], jobs, TRAINING_S, MIN_EPOCHS, MAX_EPOCHS, NUM_ROUNDS])


def groups(shift: int = 0) -> list[Group]:
    """Two groups a cluster; models, depths, widths and graphs turn at different periods.

    `shift` turns them all on: shift 0 is the benchmark, others are for looking while building.
    """
    made = []
    for index, cluster in enumerate(name for name in _CLUSTERS for _ in range(GROUPS_PER_CLUSTER)):
        turn = index + shift
        kind, layers = _KINDS[turn % 5], 2 + turn % 3
        model = ModelSpec(kind=kind, num_layers=layers, hidden_channels=_WIDTHS[(3 * turn + turn // 4) % 4], heads=4)
        graph_name, graph = _graphs(shift)[(turn + turn // 3) % 3]
        name = f"{kind} {layers}x{model.hidden_channels} {graph_name}"
        training = TrainingSpec(epochs=2)  # set from the prediction
        jobs = tuple(
            Job(schema_version=1, name=pin_name, graph=graph, model=model, training=training, pin=pin)
            for pin_name, pin in _pins(kind).items()
        )
        made.append(Group(cluster, name, jobs))
    return made


def _graphs(seed: int) -> list[tuple[str, SbmGraph | RmatGraph | NpzGraph]]:
    sbm = SbmGraph(
        source="sbm", num_nodes=16_000, average_degree=16, num_features=128, num_classes=16, homophily=0.8, seed=seed
    )
    rmat = RmatGraph(source="rmat", num_nodes=20_000, num_edges=240_000, num_features=96, seed=seed)
    return [("sbm", sbm), ("photo", NpzGraph(source="npz", path=DATASETS / "amazon_photo.npz")), ("rmat", rmat)]


def _pins(kind: str) -> dict[str, PinnedDecisions]:
    """Every worker has its share: plans that leave most to one would be the easier ones to predict."""
    if kind == "gat":
        return {name: PinnedDecisions(partitioner=name, balance="refined") for name in (UNPINNED, "ranges")}
    return {
        UNPINNED: PinnedDecisions(partitioner="metis", balance="refined"),
        "metis, multiply first": PinnedDecisions(partitioner="metis", balance="refined", op_order="multiply_first"),
        "metis, aggregate first": PinnedDecisions(
            partitioner="metis", balance="refined", op_order="aggregate_first", precompute=False
        ),
        "ranges, multiply first": PinnedDecisions(partitioner="ranges", balance="refined", op_order="multiply_first"),
    }
