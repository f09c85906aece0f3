"""Runs the settings of `prediction` on emulated clusters, keeping what is finished."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks._emulated_settings import Group
from planner import api
from planner.cluster import Cluster
from planner.emulation.emulate import emulated
from planner.loaders import load_graph
from planner.plan import Plan
from planner.trace import Trace

_TRAINING_S = 8.0
_MIN_EPOCHS, _MAX_EPOCHS = 12, 60


@dataclass(frozen=True)
class Run:
    """One setting: a plan and what was measured of it. `index` counts the settings of a cluster."""

    group: Group
    index: int
    plan: Plan
    measured: Trace

    @property
    def name(self) -> str:
        """Cluster, group and plan."""
        return f"{self.group.cluster}: {self.group.name}, {self.plan.job.name}"


def run_cluster(cluster: Cluster, groups: list[Group], folder: Path, *, quick: bool) -> list[Run]:
    """Profiles a cluster's hosts where they run, then plans and runs every job of its groups.

    The profile is taken once, before any run; finished runs in `folder` are read, not run again.
    """
    profiled = folder / "profile" / "cluster.json"
    todo = [(group, folder / group.name.replace(" ", "_")) for group in groups]
    complete = all((_folder(at, job.name) / "measured.json").exists() for group, at in todo for job in group.jobs)
    if not complete or not profiled.exists():
        with inside(cluster):
            if not profiled.exists():
                print(f"{cluster.name}: profiling every host where it runs", flush=True)
                api.profile_cluster(cluster, profiled.parent, quick=quick)
            for group, at in todo:
                _run_group(group, Cluster.load(profiled), at)
    runs: list[Run] = []
    for group, at in todo:
        for job in group.jobs:
            done = _folder(at, job.name)
            runs.append(Run(group, len(runs), Plan.load(done / "plan.json"), Trace.load(done / "measured.json")))
    return runs


@contextmanager
def inside(cluster: Cluster) -> Iterator[None]:
    """This process as a command of `gnnplan emulate` sees it."""
    with emulated(cluster) as (_, _, environment):
        os.environ.update(environment)
        try:
            yield
        finally:
            for name in environment:
                del os.environ[name]


def _folder(group_folder: Path, job_name: str) -> Path:
    return group_folder / job_name.replace(", ", "_").replace(" ", "_")


def _run_group(group: Group, cluster: Cluster, at: Path) -> None:
    graph = load_graph(group.jobs[0].graph)
    for job in group.jobs:
        folder = _folder(at, job.name)
        if (folder / "measured.json").exists():
            continue
        path = folder / "decided" / "plan.json"
        predicted_s = api.plan(job, cluster, path, graph=graph).prediction.epoch_s
        epochs = int(min(max(_TRAINING_S / predicted_s, _MIN_EPOCHS), _MAX_EPOCHS))
        job = job.model_copy(update={"training": job.training.model_copy(update={"epochs": epochs})})
        api.plan(job, cluster, path, graph=graph)
        measured = api.run(path, folder)
        print(
            f"{group.cluster}: {group.name}, {job.name}: predicted {predicted_s * 1e3:.0f} ms, "
            f"measured {measured.median_epoch_s * 1e3:.0f} ms "
            f"(spread {measured.epoch_spread_s / measured.median_epoch_s:.0%})",
            flush=True,
        )
