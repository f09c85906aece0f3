"""Predicted against measured epochs on one device: GCN, SAGE and GAT full batch, on a GPU where there is one.

On CUDA the profile it measures also goes into the catalog, as measured; with --quick it does not.
"""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks._common import OUT, this_machine
from benchmarks._prediction_table import predict_and_run
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import MEASURED_FOLDER
from gnnplan.profiles.machine import MachineProfile

_KINDS: tuple[ModelKind, ...] = ("gcn", "sage", "gat")


def main(quick: bool) -> dict:
    """Profiles the device once, then plans, runs and compares nine settings."""
    has_cuda = torch.cuda.is_available()
    folder = OUT / ("one_device_cuda" if has_cuda else "one_device")
    cluster = this_machine(1, quick=quick or not has_cuda, folder=folder)
    (device_spec,) = cluster.hosts[0].devices
    if has_cuda and not quick:
        assert device_spec.profile is not None
        _into_catalog(device_spec.profile)
    device = torch.cuda.get_device_name() if has_cuda else "one CPU worker, all cores"
    title = f"predicted against measured median epoch on {device}"
    return {"device": device, **predict_and_run(_jobs(quick, has_cuda), cluster, folder, title)}


def _jobs(quick: bool, has_cuda: bool) -> dict[str, Job]:
    scale = 20 if has_cuda and not quick else 1
    graphs = {
        "sbm": SbmGraph(source="sbm", num_nodes=10_000 * scale, average_degree=25, num_features=256, num_classes=32),
        "rmat": RmatGraph(source="rmat", num_nodes=15_000 * scale, num_edges=300_000 * scale, num_features=128),
    }
    shapes = {"sbm": [(2, 128), (3, 256)], "rmat": [(3, 128)]}
    return {
        f"{kind} {layers}x{width} {name}": Job(
            schema_version=1,
            name=f"{kind} {layers}x{width} {name}",
            graph=graph,
            model=ModelSpec(kind=kind, num_layers=layers, hidden_channels=width),
            training=TrainingSpec(epochs=30),
        )
        for kind in (_KINDS[:1] if quick else _KINDS)
        for name, graph in graphs.items()
        for layers, width in shapes[name]
    }


def _into_catalog(path: Path) -> None:
    """Under the device's short name, e.g. `h200` for NVIDIA H200."""
    profile = MachineProfile.load(path)
    name = profile.device_name.lower().replace("nvidia", "").strip().replace(" ", "-")
    profile.model_copy(update={"name": name}).save(MEASURED_FOLDER / f"{name}.json")
