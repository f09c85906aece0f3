"""Do profiles time what training meets? What tasks of runs take, by profiles that are taken one way and another.

This machine is profiled as two workers, several times in turn: as profiles are taken now, operators on operands in turn
and collectives after computing, by their mean; and as they once were, by calls that repeat the last one and a median.
The settings of `prediction_here` are planned and run once, nothing is fitted to the runs. An error is what tasks miss
their prediction by in all, over what they take in all: of operators, and of collectives without waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import _in_training_worker
from benchmarks._common import OUT, ROOT, on_all, this_machine
from benchmarks.prediction_here import NUM_WORKERS, settings
from gnnplan.planner import api
from gnnplan.planner.calibration.fit import Sample
from gnnplan.planner.calibration.observe import observe, with_profiles
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.launch import launch
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.profiler import profile_path

_ROUNDS = 3
WAYS = ("as in training", "repeating")
_KINDS = ("operators", "collectives")


def main(quick: bool) -> dict:
    """Profiles, runs, and lays both predictions over what was measured."""
    folder = OUT / "in_training"
    cluster = this_machine(NUM_WORKERS, quick=True, folder=folder)
    profiles: dict[str, list[MachineProfile]] = {way: [] for way in WAYS}
    for number in range(1 if quick else _ROUNDS):
        for way in WAYS:
            print(f"profiling this machine, {way}, round {number}", flush=True)
            profiles[way].append(_profiled(repeating=way == "repeating"))
    rows = []
    for index, (name, job) in enumerate(settings(quick).items()):
        path = folder / f"setting_{index}" / "plan.json"
        plan = api.plan(on_all(job, cluster), cluster, path)
        measured = api.run(path, path.parent)
        rows.append({"setting": name, **{way: _errors(plan, measured, profiles[way]) for way in WAYS}})
    _show(rows)
    return {**{f"{kind}_error": {way: _mean(rows, way, kind) for way in WAYS} for kind in _KINDS}, "rows": rows}


def _profiled(*, repeating: bool) -> MachineProfile:
    with TemporaryDirectory(prefix="gnnplan-in-training-") as folder:
        launch(
            _in_training_worker.__name__,
            [folder, "--grid", "quick"],
            hosts=[HostGroup(NUM_WORKERS)],
            folder=Path(folder),
            environment={"PYTHONPATH": str(ROOT), **({_in_training_worker.REPEATING: "1"} if repeating else {})},
        )
        return MachineProfile.load(profile_path(Path(folder), 0))


def _errors(plan: Plan, measured: Trace, profiles: Sequence[MachineProfile]) -> dict[str, list[float]]:
    """By kind of task, one of each profile."""
    (name,) = {profile.name for profile in plan.placement.profiles.values()}
    seen = [observe(with_profiles(plan, {name: profile}), measured, {}) for profile in profiles]
    return {
        "operators": [_error([sample for samples in each.compute.values() for sample in samples]) for each in seen],
        "collectives": [_error(each.collectives) for each in seen],
    }


def _error(samples: Sequence[Sample]) -> float:
    missed_s = sum(abs(sum(sample.parts.values()) - sample.measured_s) for sample in samples)
    return float(missed_s / sum(sample.measured_s for sample in samples))


def _mean(rows: Sequence[dict], way: str, kind: str) -> float:
    return float(np.mean([row[way][kind] for row in rows]))


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="by how much tasks miss their prediction (lowest and highest of all profiles)")
    table.add_column("setting")
    for kind in _KINDS:
        for way in WAYS:
            table.add_column(f"{kind}, {way}", justify="right")
    for row in rows:
        found = [row[way][kind] for kind in _KINDS for way in WAYS]
        table.add_row(row["setting"], *(f"{np.mean(e):.1%} ({min(e):.1%} to {max(e):.1%})" for e in found))
    Console().print(table)
