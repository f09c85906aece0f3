"""Runs the settings of `prediction` on emulated clusters, keeping what is finished."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks._emulated_settings import Group
from planner import api
from planner.cluster import Cluster
from planner.emulation import kernel
from planner.emulation.emulate import EmulatedHost, emulated
from planner.graph import Graph
from planner.job import GraphSpec, Job
from planner.loaders import load_graph
from planner.plan import Plan
from planner.trace import Trace
from profiles.steal import TOLERATED_SHARE

_TRAINING_S = 3.0  # of one round
_MIN_EPOCHS, _MAX_EPOCHS = 8, 160
NUM_ROUNDS = 3
MAX_TRIES = 4
_PAUSE_S = 10.0  # longer after every try


@dataclass(frozen=True)
class Run:
    """One setting: a plan and what was measured of it, once a round. `index` counts the settings of a cluster."""

    group: Group
    index: int
    plan: Plan
    measured: tuple[Trace, ...]

    @property
    def name(self) -> str:
        """Cluster, group and plan."""
        return f"{self.group.cluster}: {self.group.name}, {self.plan.job.name}"


def run_cluster(cluster: Cluster, groups: list[Group], folder: Path, *, quick: bool) -> list[Run]:
    """Profiles a cluster's hosts where they run, then plans every job of its groups and runs them in rounds.

    This machine's speed changes for seconds at a time; a setting is run once a round, so that its runs lie
    minutes apart. The profile is taken once, before any run; finished runs in `folder` are read, not run again.
    """
    profiled = folder / "profile" / "cluster.json"
    rounds = range(1 if quick else NUM_ROUNDS)
    jobs = [(group, job, _folder(folder, group, job.name)) for group in groups for job in group.jobs]
    if not all((_round(at, number) / "measured.json").exists() for _, _, at in jobs for number in rounds):
        with inside(cluster):
            if not profiled.exists():
                print(f"{cluster.name}: profiling every host where it runs", flush=True)
                api.profile_cluster(cluster, profiled.parent, quick=quick)
            for group, job, at in jobs:
                _plan(group, job, Cluster.load(profiled), at)
            for number in rounds:
                for group, job, at in jobs:
                    _run(group, job.name, at, number, 1 if quick else MAX_TRIES)
    return [
        Run(
            group,
            index,
            Plan.load(at / "plan.json"),
            tuple(Trace.load(_round(at, number) / "measured.json") for number in rounds),
        )
        for index, (group, _, at) in enumerate(jobs)
    ]


@contextmanager
def inside(cluster: Cluster) -> Iterator[tuple[str, tuple[EmulatedHost, ...]]]:
    """This process as a command of `gnnplan emulate` sees it; yields the emulation's id and hosts."""
    with emulated(cluster) as (identity, hosts, environment):
        os.environ.update(environment)
        try:
            yield identity, hosts
        finally:
            for name in environment:
                del os.environ[name]


@contextmanager
def started_fast(identity: str, hosts: Sequence[EmulatedHost]) -> Iterator[Callable[[dict], None]]:
    """Yields a run's `on_event`; hosts have all processor time before its first epoch's end and after its last one's.

    Importing torch under a fifth of a core takes a minute, and so do ending a process and evaluating: nothing of that
    is measured. The first epoch is not timed either.
    """
    limited = False

    def limit(to: bool) -> None:
        nonlocal limited
        if limited != to:
            limited = to
            for host in hosts:
                kernel.set_cpu(identity, host.index, host.cpu_cores if to else None)

    for host in hosts:
        kernel.set_cpu(identity, host.index, None)
    try:
        yield lambda event: limit(event["epoch"] < event["epochs"] - 1)
    finally:
        limit(True)


@lru_cache(maxsize=1)
def loaded(spec: GraphSpec) -> Graph:
    """The graph; the last one is kept, for its settings are run one after another."""
    return load_graph(spec)


def without_limits(cluster: Cluster) -> Cluster:
    """The same hosts on all of this machine's processor time, with links that nothing slows down."""
    hosts = tuple(host.model_copy(update={"cpu_cores": None, "link": None}) for host in cluster.hosts)
    return cluster.model_copy(update={"hosts": hosts})


def _folder(folder: Path, group: Group, job_name: str) -> Path:
    return folder / group.name.replace(" ", "_") / job_name.replace(", ", "_").replace(" ", "_")


def _round(at: Path, number: int) -> Path:
    return at / f"round_{number}"


def _plan(group: Group, job: Job, cluster: Cluster, at: Path) -> None:
    path = at / "plan.json"
    if path.exists():
        return
    graph = load_graph(job.graph)
    predicted_s = api.plan(job, cluster, at / "first" / "plan.json", graph=graph).prediction.epoch_s
    epochs = int(min(max(_TRAINING_S / predicted_s, _MIN_EPOCHS), _MAX_EPOCHS))
    training = job.training.model_copy(update={"epochs": epochs})
    api.plan(job.model_copy(update={"training": training}), cluster, path, graph=graph)


class Disturbed(Protocol):
    """What was measured while a share of this machine's processor time was stolen."""

    @property
    def stolen_share(self) -> float: ...


_Measured = TypeVar("_Measured", bound=Disturbed)


def undisturbed(run: Callable[[], _Measured], tries: int) -> _Measured:
    """A run again while processor time is stolen from this machine; of what always is, the least disturbed."""
    least: _Measured | None = None
    for number in range(tries):
        if number:
            time.sleep(_PAUSE_S * number)
        measured = run()
        if least is None or measured.stolen_share < least.stolen_share:
            least = measured
        if least.stolen_share <= TOLERATED_SHARE:
            break
    assert least is not None
    return least


def _run(group: Group, job_name: str, at: Path, number: int, tries: int) -> None:
    if (_round(at, number) / "measured.json").exists():
        return
    predicted_s = Plan.load(at / "plan.json").prediction.epoch_s
    measured = undisturbed(lambda: api.run(at / "plan.json", _round(at, number)), tries)
    measured.save(_round(at, number) / "measured.json")
    print(
        f"{group.cluster}: {group.name}, {job_name}, round {number}: predicted {predicted_s * 1e3:.0f} ms, "
        f"measured {measured.median_epoch_s * 1e3:.0f} ms "
        f"(spread {measured.epoch_spread_s / measured.median_epoch_s:.0%}, stolen {measured.stolen_share:.1%})",
        flush=True,
    )
