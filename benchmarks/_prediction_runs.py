"""Plans and runs the settings of `prediction` on emulated clusters, keeping what is finished under `out/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks._common import on_all
from benchmarks._emulated import MAX_TRIES, Emulation, inside, loaded, started_fast, undisturbed
from benchmarks._prediction_settings import MAX_EPOCHS, MIN_EPOCHS, NUM_ROUNDS, TRAINING_S, Group
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace


@dataclass(frozen=True)
class Run:
    """One setting: a plan and what was measured of it, once a round. `index` counts the settings of a cluster."""

    group: Group
    index: int
    plan: Plan
    measured: tuple[Trace, ...]


def run_cluster(cluster: Cluster, groups: list[Group], folder: Path, *, quick: bool) -> list[Run]:
    """Profiles a cluster's hosts where they run, then plans every job of its groups and runs them in rounds.

    This machine's speed changes for seconds at a time; a setting is run once a round, so that its runs lie
    minutes apart. The profile is taken once, before any run; finished runs in `folder` are read, not run again.
    """
    profiled = folder / "profile" / "cluster.json"
    rounds = range(1 if quick else NUM_ROUNDS)
    jobs = [(group, job, _folder(folder, group, job.name)) for group in groups for job in group.jobs]
    if not all((_round(at, number) / "measured.json").exists() for _, _, at in jobs for number in rounds):
        with inside(cluster) as emulation:
            if not profiled.exists():
                print(f"{cluster.name}: profiling every host where it runs", flush=True)
                api.profile_cluster(cluster, profiled.parent, quick=quick)
            for group, job, at in jobs:
                _plan(group, job, Cluster.load(profiled), at)
            for number in rounds:
                for group, job, at in jobs:
                    _run(group, job, at, number, emulation, 1 if quick else MAX_TRIES)
    return [
        Run(
            group,
            index,
            Plan.load(at / "plan.json"),
            tuple(Trace.load(_round(at, number) / "measured.json") for number in rounds),
        )
        for index, (group, _, at) in enumerate(jobs)
    ]


def _folder(folder: Path, group: Group, job_name: str) -> Path:
    return folder / group.name.replace(" ", "_") / job_name.replace(", ", "_").replace(" ", "_")


def _round(at: Path, number: int) -> Path:
    return at / f"round_{number}"


def _plan(group: Group, job: Job, cluster: Cluster, at: Path) -> None:
    """A plan for as many epochs as fill a round."""
    path = at / "plan.json"
    if path.exists():
        return
    plan = api.plan(on_all(job, cluster), cluster, at / "first" / "plan.json", graph=loaded(job.graph))
    epochs = int(min(max(TRAINING_S / plan.prediction.epoch_s, MIN_EPOCHS), MAX_EPOCHS))
    training = job.training.model_copy(update={"epochs": epochs})
    longer = plan.model_copy(update={"job": plan.job.model_copy(update={"training": training})})
    for beside in (at / "first").glob("plan.*.npz"):
        (at / beside.name).write_bytes(beside.read_bytes())
    longer.save(path)


def _run(group: Group, job: Job, at: Path, number: int, emulation: Emulation, tries: int) -> None:
    if (_round(at, number) / "measured.json").exists():
        return
    predicted_s = Plan.load(at / "plan.json").prediction.epoch_s

    def run() -> Trace:
        with started_fast(*emulation) as on_event:
            folder = _round(at, number) / "try"
            return api.run(at / "plan.json", folder, graph=loaded(job.graph), timeout_s=600.0, on_event=on_event)

    measured = undisturbed(run, tries)
    measured.save(_round(at, number) / "measured.json")
    print(
        f"{group.cluster}: {group.name}, {job.name}, round {number}: predicted {predicted_s * 1e3:.0f} ms, "
        f"measured {measured.median_epoch_s * 1e3:.0f} ms "
        f"(spread {measured.epoch_spread_s / measured.median_epoch_s:.0%}, stolen {measured.stolen_share:.1%})",
        flush=True,
    )
