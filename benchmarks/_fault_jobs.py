"""The runs that faults come to: a small plan of each family, and the same training undisturbed.

They are kept by the code that made them, for parts of the matrix that are played later.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks._fault_cells import Job, Run
from benchmarks._fault_kinds import EMULATED
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link

KINDS = ("full batch", "partial reduce", "mini-batch", "tensor parallel", EMULATED)
_WHOLE_S = 240.0
_EPOCHS, _QUICK_EPOCHS = 500, 150
_GRAPH = {
    "source": "sbm",
    "num_nodes": 300,
    "average_degree": 8,
    "num_classes": 4,
    "num_features": 12,
    "feature_signal": 3.0,
    "seed": 1,
}


def job_of(kind: str, folder: Path, *, quick: bool) -> Job:
    """Rows that are kept, which have most to lose, partial reduce, slices of columns, or mini-batches."""
    epochs = _QUICK_EPOCHS if quick or kind == "mini-batch" else _EPOCHS
    job: dict[str, Any] = {
        "name": kind.replace(" ", "_"),
        "graph": _GRAPH,
        "model": {"kind": "gcn", "hidden_channels": 8, "dropout": 0.5},
        "training": {"epochs": epochs},
        "fidelity": "stale",
    }
    pin: dict[str, Any] = {"dependencies": "communicate", "num_workers": 1 if quick else 2, "balance": "speed"}
    if kind == "mini-batch":
        job["model"] = {"kind": "sage", "hidden_channels": 8}
        job |= {"mini_batch": {"fan_outs": [4, 3], "batch_size": 15}, "pin": {"num_workers": 2}, "fidelity": "exact"}
        return _planned(kind, job, folder, None, epochs)
    if kind == "partial reduce":
        job["pin"] = pin | {"partial_reduce": {"max_staleness": 2}}
    elif kind == "tensor parallel":
        job["pin"] = {"num_workers": 2, "balance": "speed", "techniques": {"feature_slices": True}}
    else:
        job["pin"] = pin | {"refresh_interval": 3}
    return _planned(kind, job, folder, _cluster(folder, kind), epochs)


def _cluster(folder: Path, kind: str) -> Cluster:
    """Two workers of a machine like this, or of two, by a link on which rows are worth keeping."""
    path = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    if kind == EMULATED:
        one = (DeviceSpec(profile=path),)
        hosts = tuple(HostSpec(name=name, devices=one, link=Link(bytes_per_s=1e7)) for name in "ab")
        return Cluster(schema_version=1, hosts=hosts)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(schema_version=1, hosts=(host,), device_link=Link(bytes_per_s=1e6))


def _planned(kind: str, job: dict[str, Any], folder: Path, cluster: Cluster | None, epochs: int) -> Job:
    """The plan, one that ends in infinity where all epochs are watched for it, and a run that nothing disturbs."""
    name = job["name"]
    plan, endless, whole = folder / f"{name}.json", folder / f"{name}_endless.json", folder / f"{name}_whole"
    prefix: tuple[str, ...] = ()
    if kind == EMULATED:
        assert cluster is not None
        file = cluster.save(folder / "cluster.json")
        prefix = (sys.executable, "-m", "gnnplan.planner.cli", "emulate", str(file), "--")
    made = Job(kind, plan, whole, epochs, endless, is_repeatable=kind != "partial reduce", prefix=prefix)
    if (whole / "whole").exists():
        return made
    shutil.rmtree(whole, ignore_errors=True)
    api.plan(job, cluster, plan)
    training = {**job["training"], "optimizer": "sgd", "learning_rate": 1e6}
    api.plan(job | {"training": training}, cluster, endless)
    undisturbed = Run(plan, whole, folder, prefix=prefix)
    assert undisturbed.end(_WHOLE_S), undisturbed.said
    assert undisturbed.process.returncode == 0, undisturbed.said
    (whole / "whole").touch()
    return made
