"""Plans the sides of a cell of `tensor_parallel` once, and runs them in turn on a cluster; what is finished stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks._composition_runs import is_same
from benchmarks._emulated import MAX_TRIES, loaded, undisturbed
from benchmarks._tensor_parallel_settings import (
    CHOICE,
    MAX_EPOCHS,
    MIN_EPOCHS,
    NUM_ROUNDS,
    ROWS,
    RUN_S,
    SLICES_LAYOUT,
)
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import GraphSpec
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace

Started = Callable[[], AbstractContextManager[Callable[[dict], None] | None]]
"""What starts a run; it gives the run's `on_event`."""
_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Side:
    """A plan, and one trace a round. The planner's choice may be the plan of another side: then it is not run again."""

    plan: Plan
    rounds: tuple[Trace, ...]
    same_as: str = ""

    @property
    def median_s(self) -> float:
        """Of the rounds' median epochs."""
        return float(np.median([trace.median_epoch_s for trace in self.rounds]))


class Sides(Protocol):
    """What is planned in several ways, side by side: a cell, or the gains of a graph."""

    @property
    def name(self) -> str: ...

    @property
    def graph(self) -> GraphSpec: ...

    @property
    def jobs(self) -> dict[str, Job]:
        """By side."""
        ...


def sides_of(cell: Sides, cluster: Cluster, folder: Path, started: Started, quick: bool) -> dict[str, Side]:
    """All sides, planned and run as far as that has not been done."""
    plans: dict[str, Plan] = {}
    for name, job in cell.jobs.items():
        if name == ROWS and CHOICE in plans and not is_sliced(plans[CHOICE]):  # the search had no better rows
            shutil.copytree(_place(folder, CHOICE), _place(folder, ROWS), dirs_exist_ok=True)
        plans[name] = _planned(cell, job, cluster, _place(folder, name))
    same = _stands_for_the_choice(plans)
    num_rounds, own = 1 if quick else NUM_ROUNDS, [name for name in plans if not (same and name == CHOICE)]
    for number in range(num_rounds):
        for name in own:
            _run(cell, name, _place(folder, name), number, started, 1 if quick else MAX_TRIES)
    found = {}
    for name, plan in plans.items():
        stands = same if same and name == CHOICE else name
        traces = [Trace.load(_measured(_place(folder, stands), number)) for number in range(num_rounds)]
        found[name] = Side(plan, tuple(traces), "" if stands == name else stands)
    return found


def is_sliced(plan: Plan) -> bool:
    """Whether workers have slices of the features."""
    return any(each.technique == SLICES_LAYOUT for each in plan.choices)


def _place(folder: Path, side: str) -> Path:
    return folder / side.replace(" ", "_").replace("'", "")


def _measured(at: Path, number: int) -> Path:
    return at / f"measured_{number}.json"


def _stands_for_the_choice(plans: Mapping[str, Plan]) -> str:
    """A side that was planned as the planner chose freely (empty: none, or it does not choose)."""
    if CHOICE not in plans:
        return ""
    return next((name for name, plan in plans.items() if name != CHOICE and is_same(plan, plans[CHOICE])), "")


def _planned(cell: Sides, job: Job, cluster: Cluster, at: Path) -> Plan:
    """A plan for as many epochs as fill a run."""
    path = at / "plan.json"
    if not path.exists():
        print(f"{cell.name}, {job.name}: planning", flush=True)
        first = api.plan(job, cluster, at / "first" / "plan.json", graph=loaded(job.graph))
        epochs = int(np.clip(RUN_S / first.prediction.epoch_s, MIN_EPOCHS, MAX_EPOCHS))
        training = job.training.model_copy(update={"epochs": epochs})
        for beside in (at / "first").glob("plan.*.npz"):
            (at / beside.name).write_bytes(beside.read_bytes())
        first.model_copy(update={"job": first.job.model_copy(update={"training": training})}).save(path)
    return Plan.load(path)


def _run(cell: Sides, side: str, at: Path, number: int, started: Started, tries: int) -> None:
    if _measured(at, number).exists():
        return
    graph = loaded(cell.graph)

    def run() -> Trace:
        with started() as on_event:
            return api.run(at / "plan.json", at / "run", graph=graph, timeout_s=_TIMEOUT_S, on_event=on_event)

    measured = undisturbed(run, tries)
    measured.save(_measured(at, number))
    print(f"{cell.name}, {side}, round {number}: {measured.median_epoch_s * 1e3:.0f} ms an epoch", flush=True)
