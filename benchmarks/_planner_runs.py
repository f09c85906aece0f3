"""Plans a setting of `planner` as the search does, and in every cell of the grid, and runs each plan; keeps it all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count, takewhile
from pathlib import Path

import numpy as np

from benchmarks._emulated import Emulation, loaded, started_fast, undisturbed
from benchmarks._planner_settings import FAR, MAX_EPOCHS, MIN_EPOCHS, ONE_HOST, RUN_S, Setting, cells, job_in
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import NoPlanFitsError, UserError

CHOSEN = "chosen"
Run = Callable[[Setting, Path], tuple[tuple[float, ...], float]]
"""Epochs of a plan file in seconds, and the stolen share meanwhile."""


@dataclass(frozen=True)
class Planned:
    """A plan of the grid, or the one that was chosen.

    Args:
        name: of the cell, or `CHOSEN`.
        family: of the cell; of the chosen one what it is of.
        same_as: another one that is the same plan, which stands for both ("": none).
    """

    name: str
    family: str
    path: Path
    predicted_s: float
    same_as: str = ""


def planned(setting: Setting, cluster: Cluster, folder: Path) -> list[Planned]:
    """The chosen plan first, then that of every cell that has one."""
    kept = folder / "plans.json"
    if not kept.exists():
        found = _all_plans(setting, cluster, folder)
        kept.write_text(json.dumps([asdict(each) | {"path": str(each.path)} for each in found], indent=1))
    return [Planned(**{**each, "path": Path(each["path"])}) for each in json.loads(kept.read_text())]


def _all_plans(setting: Setting, cluster: Cluster, folder: Path) -> list[Planned]:
    """All train for as many epochs as the chosen one needs to fill a run."""
    graph, plans, families = loaded(setting.job.graph), dict[str, Plan](), dict[str, str]()
    for name, family, job, part in _jobs(setting, cluster):
        path = folder / name / "plan.json"
        try:
            plans[name], families[name] = api.plan(job, part, path, graph=graph), family
        except (UserError, NoPlanFitsError) as error:  # a family may have no plan here
            print(f"{setting.name}: {name}: {error}", flush=True)
    families[CHOSEN] = family_of(plans[CHOSEN])
    epochs = int(np.clip(RUN_S / plans[CHOSEN].prediction.epoch_s, MIN_EPOCHS, MAX_EPOCHS))
    found: list[Planned] = []
    for name, plan in plans.items():
        training = plan.job.training.model_copy(update={"epochs": epochs})
        path = folder / name / "plan.json"
        plan.model_copy(update={"job": plan.job.model_copy(update={"training": training})}).save(path)
        same = next((other.name for other in found if _is_same(plans[other.name], plan)), "")
        found.append(Planned(name, families[name], path, plan.prediction.each_of_many_s, same))
    return found


def _jobs(setting: Setting, cluster: Cluster) -> Iterator[tuple[str, str, Job, Cluster]]:
    yield CHOSEN, "", setting.job, cluster
    for cell in cells(cluster.hosts):
        hosts = tuple(cluster.hosts[number] for number in cell.hosts)
        yield cell.name, cell.family, job_in(cell, setting), cluster.model_copy(update={"hosts": hosts})


def family_of(plan: Plan) -> str:
    """Which of the families a plan is of."""
    names = {choice.technique for choice in plan.choices}
    if plan.num_workers == 1:
        return ONE_HOST
    if "feature_slices" in names:
        return "columns"
    return "rows, some made" if "replicas" in names else "rows, sent"


def _is_same(one: Plan, other: Plan) -> bool:
    return (
        one.partition_sha256 == other.partition_sha256
        and [worker.host for worker in one.placement.workers] == [worker.host for worker in other.placement.workers]
        and one.cycle == other.cycle
    )


def measured(setting: Setting, plans: list[Planned], num_rounds: int, run: Run) -> dict[str, list[float]]:
    """By plan its mean epoch in every round; plans run in turn, there and back, so that a slow spell hits all.

    Who takes over `FAR` times as long as the fastest after a round cannot be the best, and is not run again.
    """
    by_name = {each.name: each for each in plans}
    found: dict[str, list[float]] = {each.name: [] for each in plans if not each.same_as}
    running = list(found)
    for number in range(num_rounds):
        for name in running[:: -1 if number % 2 else 1]:
            found[name].append(_mean_s(setting, by_name[name], number, run))
        middle_s = {name: float(np.median(found[name])) for name in running}
        least_s = min(middle_s.values())
        far = FAR[min(number, len(FAR) - 1)]
        running = [name for name in running if name == CHOSEN or middle_s[name] <= far * least_s]
    return {each.name: found[each.same_as or each.name] for each in plans}


def _mean_s(setting: Setting, of: Planned, number: int, run: Run) -> float:
    """Of a plan's epochs in a round, which are kept. Shares of processor time end some epochs a period later."""
    at = _kept_at(of, number)
    if not at.exists():
        epochs_s, stolen_share = run(setting, of.path)
        at.write_text(json.dumps({"epoch_s": epochs_s, "stolen_share": stolen_share}))
    return float(np.mean(_epochs_s(at)))


def median_epoch_s(of: Planned) -> float:
    """The median epoch of a plan's runs, and of these the median."""
    rounds = takewhile(Path.exists, (_kept_at(of, number) for number in count()))
    return float(np.median([np.median(_epochs_s(at)) for at in rounds]))


def _kept_at(of: Planned, number: int) -> Path:
    return of.path.with_name(f"measured_{number}.json")


def _epochs_s(at: Path) -> list[float]:
    return json.loads(at.read_text())["epoch_s"]


def on_hosts(emulation: Emulation, tries: int) -> Run:
    """Runs on emulated hosts."""

    def run(setting: Setting, path: Path) -> tuple[tuple[float, ...], float]:
        def once():
            with started_fast(*emulation) as on_event:
                graph = loaded(setting.job.graph)
                how = {"graph": graph, "timeout_s": 600.0, "on_event": on_event, "checkpoint_every": "never"}
                return api.run(path, path.parent / "run", **how)

        trace = undisturbed(once, tries)
        return trace.epoch_s, trace.stolen_share

    return run


def simulated(_: Setting, path: Path) -> tuple[tuple[float, ...], float]:
    """What the quick form has in place of a run: epochs of the virtual clock, no task fluctuating."""
    return api.simulate(path, num_replicas=0).epoch_s, 0.0
