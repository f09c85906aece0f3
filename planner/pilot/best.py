"""The plan that comes to an accuracy first: every family is piloted and planned, and one is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.pilot.contract import Curve, family_of, label
from gnnplan.planner.pilot.kept import kept_pilots
from gnnplan.planner.pilot.reach import By, Reached, to_accuracy
from gnnplan.planner.pilot.run import DEFAULT_EPOCHS, families_of
from gnnplan.planner.pilot.variants import in_file_names, told_of, without_piloted
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition, save_plan
from gnnplan.planner.search import named
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.train import write_plan
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import NoPlanFitsError
from gnnplan.profiles.launch import Event

PILOTS_FILE = "pilots.json"


@dataclass(frozen=True)
class Piloted:
    """What pilots and plans of a job's families come to.

    Args:
        plan: the one to be run.
        reached: the way of each family's plan to the accuracy.
        curves: of the families, full batch first.
        unplanned: of each family that has no plan here, why.
    """

    plan: Plan
    reached: Reached
    curves: tuple[Curve, ...]
    unplanned: tuple[str, ...] = ()

    def words(self) -> str:
        """What was chosen and why, in sentences."""
        has_batches = any(way.family == "mini_batch" for way in self.reached.ways)
        without = "" if has_batches else " Mini-batches are planned where they run: without a cluster."
        return " ".join([self.reached.words() + without, *self.unplanned])


def plan_to_accuracy(
    job: Job,
    cluster: Cluster,
    graph: Graph,
    path: Path,
    accuracy: float,
    *,
    is_here: bool,
    batches: Sequence[MiniBatchSpec] = (),
    epochs: int = DEFAULT_EPOCHS,
    on_step: OnStep = lambda _: None,
    on_event: Callable[[Event], None] | None = None,
) -> Piloted:
    """Plans full batch for a cluster, and mini-batches for this machine, and takes what is at an accuracy first.

    Full batch of the model as it is, by each decision that has to be piloted, and of its decoupled form, where the
    job's fidelity allows these.

    Money decides where the job's objective minimizes it, else time. Its limits are counted to the epochs of the curves.
    A family that fits nowhere, or goes over a limit, is left out. The best plan is written to `path`, every family's
    beside it with its name, and the curves to `pilots.json` there.

    Args:
        is_here: the cluster is this machine. Elsewhere mini-batches cannot be planned.
        batches: kinds of mini-batches, as `families_of` takes them.
        epochs: of each pilot at most.
        on_event: as `run_pilots` has it.

    Raises:
        UserError: a family has no pilot, or a plan cannot be weighed, as `families_of` and `to_accuracy` say.
        NoPlanFitsError: no family's plan fits, or no curve comes to the accuracy.
        RunFailedError: a pilot failed.
    """
    families, are_several = families_of(job, batches), len(batches) > 1
    beside = {
        id(each): path.with_name(f"{path.stem}.{_file_part(each, are_several)}{path.suffix}") for each in families
    }
    for file in (path, *beside.values()):
        check_writable(file)
    kept = path.with_name(PILOTS_FILE)
    pilots = kept_pilots(families, graph.fingerprint, kept, epochs=epochs, accuracy=accuracy, on_event=on_event)
    found = {id(each): pilots.of(each, graph.fingerprint) for each in families}
    plans, files, unplanned = [], [], []
    for family in families if is_here else (each for each in families if not each.mini_batch):
        curve, file = found[id(family)], beside[id(family)]
        asked = _asked_for(job, family, curve.epochs_to(accuracy) if curve else None)
        where, on = (None, None) if family.mini_batch else (cluster, graph)
        try:
            plans.append(write_plan(asked, where, on, file, on_step))
            files.append(file)
        except NoPlanFitsError as error:
            words = label(family_of(family), told_of(family)).capitalize()
            unplanned.append(f"{words} has no plan here: {error}.")
    by: By = "money" if job.objective.minimize == "money" else "time"
    reached = to_accuracy(pilots, plans, accuracy, by, job.objective)
    if reached.best is None:
        raise NoPlanFitsError(" ".join([f"{job.name}: {reached.words()}", *unplanned]))
    at = reached.ways.index(reached.best)
    best, partition = plans[at], load_partition(plans[at], files[at])
    save_plan(named(best, path), partition, path)
    curves = tuple(curve for curve in found.values() if curve)
    return Piloted(named(best, path).lying_at(path), reached, curves, tuple(unplanned))


def _asked_for(job: Job, family: Job, epochs: int | None) -> Job:
    """A family as it is planned: full batches as the job asks for, pins and objective included.

    Mini-batches are of one worker, as their curve is.

    Args:
        epochs: to the accuracy, by which its limits are kept (None: it does not come so far, and keeps none).
    """
    if family.mini_batch:
        return Job.parse(family.model_dump(mode="json") | {"pin": {"num_workers": 1}}, where=family.name)
    raw = job.model_dump(mode="json")
    limited = {"epochs": epochs} if epochs else {"deadline_s": None, "budget": None}
    kept, own = without_piloted(raw["pin"], job), family.pin.model_dump(mode="json", exclude_unset=True)
    pin = {**kept, **own, "decisions": {**kept["decisions"], **own.get("decisions", {})}}
    changes = {
        "mini_batch": None,
        "fidelity": family.fidelity,
        "pin": pin,
        "model": family.model.model_dump(mode="json"),
        "objective": raw["objective"] | ({} if job.objective.is_plain else limited),
    }
    return Job.parse(raw | changes, where=job.name)


def _file_part(family: Job, are_several: bool) -> str:
    """What tells a family's file; of mini-batches which, where there are several kinds."""
    words = told_of(family) if are_several or not family.mini_batch else ""
    return "_".join(filter(None, (family_of(family), in_file_names(words))))
