"""Plans the sides of a row of `composition` and runs them in turn on emulated hosts, keeping what is finished."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import _first_edition
from benchmarks._composition_settings import (
    COMPOSITION,
    MAX_EPOCHS,
    MIN_EPOCHS,
    NUM_SINGLES,
    ONE_HOST,
    RUN_S,
    SINGLE,
    Row,
)
from benchmarks._emulated import Emulation, loaded, started_fast, undisturbed
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.search import simulate_plan
from gnnplan.profiles.errors import UserError

_NUM_REPLICAS = 400  # epochs that are played
BEFORE = "first edition"
_BEFORE_PINS: dict[str, dict] = {"communicate": {}, "hybrid": {"dependencies": "hybrid"}}
"""The first edition chose replicas only where it was told to: both are planned, and the better prediction is run."""


@dataclass(frozen=True)
class Side:
    """One plan of a row.

    Args:
        path: of the plan file.
        planning_s: that planning took, with the graph at hand.
        same_as: another side that has the same plan, which stands for both ("": none).
    """

    name: str
    path: Path
    predicted_s: float
    planning_s: float
    words: str
    same_as: str = ""


@dataclass(frozen=True)
class Times:
    """Median epochs of a side, one a round, and the largest stolen share."""

    epoch_s: tuple[float, ...]
    stolen_share: float


def sides_of(row: Row, profiled: Path, folder: Path) -> list[Side]:
    """The composition, the fastest single techniques by prediction, one host alone, and the first edition's plan."""
    kept = folder / "sides.json"
    if not kept.exists():
        sides = _planned(row, profiled, folder)
        kept.write_text(json.dumps([asdict(side) | {"path": str(side.path)} for side in sides], indent=1))
    return [Side(**{**each, "path": Path(each["path"])}) for each in json.loads(kept.read_text())]


def _planned(row: Row, profiled: Path, folder: Path) -> list[Side]:
    """Plans of all sides, for as many epochs as the slowest of them needs to fill a run."""
    cluster, graph = Cluster.load(profiled / "cluster.json"), loaded(row.graph)
    found: dict[str, Side] = {}
    plans: dict[str, Plan] = {}
    for name, job in row.jobs.items():
        path = folder / name.replace(": ", "_").replace(" ", "_") / "plan.json"
        begin_s = time.perf_counter()
        try:
            plans[name] = api.plan(job, cluster, path, graph=graph)
        except UserError as error:
            print(f"{row.name}: {name}: {error}", flush=True)
            continue
        spent_s = time.perf_counter() - begin_s
        found[name] = Side(name, path, plans[name].prediction.epoch_s, spent_s, _words(plans[name]))
    singles = sorted((name for name in found if name.startswith(SINGLE)), key=lambda name: found[name].predicted_s)
    sides = [_expected(found[name], plans[name]) for name in (COMPOSITION, ONE_HOST, *singles[:NUM_SINGLES])]
    epochs = int(np.clip(RUN_S / max(side.predicted_s for side in sides), MIN_EPOCHS, MAX_EPOCHS))
    for side in sides:
        plan = plans[side.name]
        plan.model_copy(update={"job": _for(plan.job, epochs)}).save(side.path)  # beside its arrays
    before = _before(_for(row.jobs[COMPOSITION], epochs), profiled, folder)
    return [*_joined(sides, plans), *([before] if before else [])]


def _expected(side: Side, plan: Plan) -> Side:
    """The side with the median of epochs whose tasks vary as they were profiled to, as `gnnplan simulate` says it."""
    return replace(side, predicted_s=simulate_plan(plan, _NUM_REPLICAS).expected_epoch_s)


def _joined(sides: Sequence[Side], plans: Mapping[str, Plan]) -> list[Side]:
    """The sides, each with the first that has the same plan."""
    joined: list[Side] = []
    for side in sides:
        same = next((each.name for each in joined if is_same(plans[each.name], plans[side.name])), "")
        joined.append(replace(side, same_as=same))
    return joined


def is_same(one: Plan, other: Plan) -> bool:
    """Whether two plans run the same programs on the same workers with the same arrays."""
    return (
        one.partition_sha256 == other.partition_sha256
        and one.placement.workers == other.placement.workers
        and one.cycle == other.cycle
    )


def _for(job: Job, epochs: int) -> Job:
    return job.model_copy(update={"training": job.training.model_copy(update={"epochs": epochs})})


def _words(plan: Plan) -> str:
    names = ", ".join(chosen.technique for chosen in plan.choices)
    return f"{plan.num_workers} of the hosts; {names}"


def _before(job: Job, profiled: Path, folder: Path) -> Side | None:
    if _first_edition.checkout() is None or job.model.kind == "gat":  # today's profiles lack its operators of attention
        return None
    cluster = _first_edition.with_old_profiles(profiled, profiled.parent / "profile_before")
    found = []
    for name, pins in _BEFORE_PINS.items():
        path = folder / f"before_{name}" / "plan.json"
        made = _first_edition.plan(job, pins, cluster, path)
        found.append(Side(BEFORE, path, made["epoch_s"], made["planning_s"], name))
    return min(found, key=lambda side: side.predicted_s)


def time_row(
    row: Row, sides: Sequence[Side], folder: Path, num_rounds: int, emulation: Emulation, tries: int
) -> dict[str, Times]:
    """Runs every side that has a plan of its own, side after side in each round."""
    for number in range(num_rounds):
        for side in sides:
            if not side.same_as:
                _run(row, side, number, emulation, tries)
    times = {}
    for side in sides:
        stands = next((each for each in sides if each.name == side.same_as), side)
        rounds = [json.loads(_measured(stands, number).read_text()) for number in range(num_rounds)]
        medians = tuple(float(np.median(each["epoch_s"])) for each in rounds)
        times[side.name] = Times(medians, max(each["stolen_share"] for each in rounds))
    return times


def _run(row: Row, side: Side, number: int, emulation: Emulation, tries: int) -> None:
    path = _measured(side, number)
    if path.exists():
        return

    def run():
        with started_fast(*emulation) as on_event:
            if side.name == BEFORE:
                return _first_edition.run(side.path, side.path.parent / "run", on_event)
            graph = loaded(row.graph)
            return api.run(side.path, side.path.parent / "run", graph=graph, timeout_s=600.0, on_event=on_event)

    measured = undisturbed(run, tries)
    path.write_text(json.dumps({"epoch_s": list(measured.epoch_s), "stolen_share": measured.stolen_share}))
    print(
        f"{row.name}, {side.name}, round {number}: predicted {side.predicted_s * 1e3:.0f} ms, "
        f"measured {np.median(measured.epoch_s) * 1e3:.0f} ms",
        flush=True,
    )


def _measured(side: Side, number: int) -> Path:
    return side.path.with_name(f"measured_{number}.json")
