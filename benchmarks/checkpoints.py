"""What checkpoints cost, how soon a run goes on from one, and what the loss of one of four hosts costs.

`cost` is the share of the training that checkpoints every 10 s take, the worst of three plans: a deep one, one of wide
parameters and one that keeps rows between epochs. `control` is the same of moments when nothing was written, which is
how exact the figure is. Whole runs with and without differ by `between_runs`, in which a machine's drift is.
`resumed_over_first` is the time to the end of the first epoch, of a run that goes on over one that begins.
`elastic` is of four emulated hosts, of which one is killed at epoch 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._checkpoint_cost import EVERY, cost_of, starts_of
from benchmarks._checkpoint_elastic import elastic_of
from benchmarks._common import OUT, dataset, this_machine
from benchmarks._emulated import why_not_emulated
from benchmarks._fluctuation_runs import with_training
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec

_RUN_S, _QUICK_RUN_S = 45.0, 6.0
_MOST_EPOCHS = 100_000
_START_EPOCHS, _START_EVERY = 50, 20
_ELASTIC_EPOCHS = 200
_QUICK_GRAPH = SbmGraph(source="sbm", num_nodes=3000, average_degree=20, num_classes=4, num_features=64)


def main(quick: bool) -> dict:
    """All plans; in quick form one, of a made graph and without emulated hosts."""
    cluster = this_machine(2, quick=True, folder=OUT)
    with TemporaryDirectory(prefix="gnnplan-checkpoints-") as temporary:
        folder = Path(temporary)
        rows = [_row(name, job, cluster, folder / name, quick) for name, job in _jobs(quick).items()]
        skipped = "the quick form emulates no hosts" if quick else why_not_emulated()
        elastic = None if skipped else _elastic(cluster, folder / "elastic")
    return {
        "every": EVERY,
        **{name: max(row[name] for row in rows) for name in ("cost", "resumed_over_first")},
        "control": max((row["control"] for row in rows), key=abs),
        "elastic": elastic,
        "skipped": skipped,
        "rows": rows,
    }


def _jobs(quick: bool) -> Mapping[str, Job]:
    """By name: what is trained on all workers."""
    if quick:
        return {"quick": _job("quick", _QUICK_GRAPH, ModelSpec(kind="gcn", hidden_channels=32))}
    photo, physics, cornell = (
        NpzGraph(source="npz", path=dataset(name)) for name in ("amazon_photo", "coauthor_physics", "fb100_cornell5")
    )
    return {
        "deep": _job("deep", photo, ModelSpec(kind="gcn", num_layers=4, hidden_channels=128)),
        "wide": _job("wide", physics, ModelSpec(kind="gcn", hidden_channels=256)),
        "kept rows": _job("kept rows", cornell, ModelSpec(kind="sage", num_layers=3, hidden_channels=64), interval=4),
    }


def _job(name: str, graph: NpzGraph | SbmGraph, model: ModelSpec, interval: int = 1) -> Job:
    pin = PinnedDecisions(num_workers=2, balance="speed", dependencies="communicate", refresh_interval=interval)
    fidelity = f"stale({interval})" if interval > 1 else "exact"
    return Job(schema_version=1, name=name, graph=graph, model=model, fidelity=fidelity, pin=pin)


def _row(name: str, job: Job, cluster: Cluster, folder: Path, quick: bool) -> dict[str, Any]:
    graph = load_graph(job.graph)
    plan = api.plan(job, cluster, folder / "plan.json", graph=graph)
    long, short = folder / "long.json", folder / "short.json"  # the partition lies beside them
    with_training(plan, epochs=_START_EPOCHS).save(short)
    epoch_s = api.run(short, folder / "short", graph=graph, checkpoint_every="never").median_epoch_s
    epochs = min(int((_QUICK_RUN_S if quick else _RUN_S) / epoch_s) + 1, _MOST_EPOCHS)
    with_training(plan, epochs=epochs).save(long)
    # The quick form counts epochs: beside other work a run may be over before a number of seconds is.
    cost = cost_of(long, graph, folder, 1 if quick else 3, max(epochs // 3, 1) if quick else EVERY)
    starts = starts_of(short, graph, folder, 1 if quick else 5, _START_EVERY)
    row = {"row": name, "plan": plan.fidelity, "epochs": epochs, **cost, **starts}
    print(row, flush=True)
    return row


def _elastic(cluster: Cluster, folder: Path) -> dict[str, Any]:
    (host,) = cluster.hosts
    profile = host.devices[0].profile
    assert profile is not None
    graph = NpzGraph(source="npz", path=dataset("amazon_photo"))
    job = _job("elastic", graph, ModelSpec(kind="gcn", hidden_channels=64))
    job = job.model_copy(update={"training": TrainingSpec(epochs=_ELASTIC_EPOCHS)})
    return elastic_of(job, profile, load_graph(graph), folder)
