"""Small jobs on two workers of this machine, planned once and run in many ways."""

from pathlib import Path

import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link

GRAPH = SbmGraph(
    source="sbm", num_nodes=300, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0, seed=1
)


def two_workers(folder: Path) -> Cluster:
    """On a slow link, so that rows are worth keeping."""
    path = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(schema_version=1, hosts=(host,), device_link=Link(bytes_per_s=1e6))


def planned(
    folder: Path, epochs: int, *, interval: int = 1, training: dict | None = None, fidelity: str = "", **pins
) -> Path:
    """The file of a plan: exact, or of a refresh interval."""
    pin = {"dependencies": "communicate", "num_workers": 2, "balance": "speed", **pins}
    job = Job(
        schema_version=1,
        graph=GRAPH,
        model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=8, dropout=0.5),
        training=TrainingSpec(epochs=epochs, seed=2, **(training or {})),
        fidelity=fidelity or ("stale" if interval > 1 else "exact"),
        pin=PinnedDecisions(**pin, **({"refresh_interval": interval} if interval > 1 else {})),
    )
    plan = api.plan(job, two_workers(folder), folder / f"plan_{interval}_{epochs}.json")
    assert plan.refresh_interval == interval
    assert plan.file is not None
    return plan.file


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Of the model that a run has left."""
    return torch.load(folder / "model.pt", weights_only=True)


def same_bits(one: Path, other: Path) -> bool:
    """Whether two runs have left the same model."""
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
