"""Plans and runs the rows of `uneven` on emulated hosts, keeping what is finished under `out/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._common import on_all, operators_of
from benchmarks._emulated import loaded, started_fast, undisturbed
from benchmarks._uneven_settings import (
    ALL,
    APPROXIMATE,
    BASE,
    EXACT,
    INTERVAL,
    MAX_GROUPS,
    MIN_GROUPS,
    RUN_S,
    WARM_UP,
    Row,
)
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.emulation.emulate import EmulatedHost
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.pace import PaceMaker


@dataclass(frozen=True)
class Timed:
    """A variant's plan and what was measured of it, once a round.

    Args:
        pace_s: processor seconds of fixed work on this machine, before and after each run.
    """

    plan: Plan
    traces: tuple[Trace, ...]
    pace_s: tuple[float, ...]


@dataclass(frozen=True)
class Trained:
    """A plan trained to the end, and its share of test vertices right."""

    plan: Plan
    accuracy: float


def groups_s(trace: Trace) -> np.ndarray:
    """Mean epochs of groups of `INTERVAL`: a refreshing epoch counts as often as it comes."""
    return np.reshape(trace.epoch_s, (-1, INTERVAL)).mean(1)


def epoch_s(trace: Trace) -> float:
    """Median over the groups."""
    return float(np.median(groups_s(trace)))


def time_row(
    row: Row,
    cluster: Cluster,
    folder: Path,
    num_rounds: int,
    emulation: tuple[str, Sequence[EmulatedHost]],
    tries: int,
) -> dict[str, Timed]:
    """Plans every variant and runs what is not yet run, round after round, variant after variant."""
    _plan(row, cluster, folder)
    for number in range(num_rounds):
        for variant in row.jobs:
            _run(_folder(folder, row, variant), number, emulation, tries)
    return {variant: _timed(_folder(folder, row, variant), num_rounds) for variant in row.jobs}


def train_row(row: Row, cluster: Cluster, folder: Path, epochs: int, seed: int) -> dict[str, Trained]:
    """The base and all approximations together after so many epochs, by the plans that were timed if they are here."""
    return {variant: _train(row, variant, cluster, folder, epochs, seed) for variant in (BASE, ALL)}


def _train(row: Row, variant: str, cluster: Cluster, folder: Path, epochs: int, seed: int) -> Trained:
    path = _plan_to_train(row, variant, cluster, folder)
    plan, done = Plan.load(path), path.with_name(f"accuracy_{epochs}_{seed}.json")
    if not done.exists():
        training = plan.job.training.model_copy(update={"epochs": epochs, "seed": seed})
        longer = path.with_name("longer.json")  # beside its partition
        plan.model_copy(update={"job": plan.job.model_copy(update={"training": training})}).save(longer)
        graph = loaded(plan.job.graph)
        api.run(longer, path.parent / "longer", graph=graph, timeout_s=600.0).save(done)
        print(f"{row.name} {variant}: trained for {epochs} epochs from seed {seed}", flush=True)
    return Trained(plan, Trace.load(done).accuracy["test"])


def _plan_to_train(row: Row, variant: str, cluster: Cluster, folder: Path) -> Path:
    """A row that another session timed has its plans there: they are made anew."""
    path = _folder(folder, row, variant) / "plan.json"
    if not path.exists():
        path = path.parent / "anew" / "plan.json"
    if not path.exists():
        api.plan(on_all(row.jobs[variant], cluster), cluster, path, graph=loaded(row.graph))
    return path


def _folder(folder: Path, row: Row, variant: str) -> Path:
    return folder / row.name.replace(" ", "_") / variant.replace(" ", "_")


def _plan(row: Row, cluster: Cluster, folder: Path) -> None:
    """Plans of all variants, for as many epochs as the slowest needs to fill a run."""
    paths = {variant: _folder(folder, row, variant) / "plan.json" for variant in row.jobs}
    if all(path.exists() for path in paths.values()):
        return
    graph = loaded(row.graph)
    first = {
        v: api.plan(on_all(job, cluster), cluster, paths[v].parent / "first" / "plan.json", graph=graph)
        for v, job in row.jobs.items()
    }
    for _, variants in row.comparisons:
        if len({operators_of(first[v]) for v in variants}) > 1:
            raise AssertionError(f"{row.name}: variants differ in operators' order or format, which is not theirs")
    slowest_s = max(first[variant].prediction.epoch_s for variant in EXACT | APPROXIMATE)
    num_groups = int(min(max(RUN_S / slowest_s / INTERVAL, MIN_GROUPS), MAX_GROUPS))
    epochs = WARM_UP + num_groups * INTERVAL
    for variant, job in row.jobs.items():
        training = job.training.model_copy(update={"epochs": epochs})
        api.plan(on_all(job.model_copy(update={"training": training}), cluster), cluster, paths[variant], graph=graph)


def _run(at: Path, number: int, emulation: tuple[str, Sequence[EmulatedHost]], tries: int) -> None:
    measured_path, pace_path = _paths(at, number)
    if measured_path.exists():
        return

    def run() -> Trace:
        with started_fast(*emulation) as on_event:
            path = at / "plan.json"
            graph = loaded(Plan.load(path).job.graph)
            return api.run(path, at / "run", graph=graph, timeout_s=600.0, on_event=on_event)

    pace = PaceMaker()
    before_s = pace.seconds()
    measured = undisturbed(run, tries)
    pace_path.write_text(json.dumps([before_s, pace.seconds()]))
    measured.save(measured_path)  # last: what has it is finished
    stolen = f"stolen {measured.stolen_share:.1%}"
    print(f"{at.parent.name} {at.name}, round {number}: {epoch_s(measured):.2f} s ({stolen})", flush=True)


def _timed(at: Path, num_rounds: int) -> Timed:
    paths = [_paths(at, number) for number in range(num_rounds)]
    pace_s = [seconds for _, pace in paths for seconds in json.loads(pace.read_text())]
    return Timed(Plan.load(at / "plan.json"), tuple(Trace.load(path) for path, _ in paths), tuple(pace_s))


def _paths(at: Path, number: int) -> tuple[Path, Path]:
    return at / f"measured_{number}.json", at / f"pace_{number}.json"
