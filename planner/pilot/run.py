"""Trains a job's families for a short while on this machine, and keeps their curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.fidelity import DECOUPLED
from gnnplan.planner.job import Job
from gnnplan.planner.pilot.batches import usual_batches
from gnnplan.planner.pilot.contract import Pilots
from gnnplan.planner.pilot.variants import variants_of
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.folder import scratch
from gnnplan.profiles.launch import Event, launch
from gnnplan.profiles.profiler import num_usable_cores

CURVES_FILE = "curves.json"
DEFAULT_EPOCHS = 50


def families_of(job: Job, batches: Sequence[MiniBatchSpec] = ()) -> tuple[Job, ...]:
    """The job in full batches, and in mini-batches.

    Between them in full batches by each decision that has to be piloted, and with its model decoupled, where its
    fidelity allows that.

    Args:
        batches: a family each (none: those that the job asks for, else common ones).

    Raises `UserError` where a family has no pilot.
    """
    if job.model.kind == "module":
        raise UserError(f"{job.name}: a module of one's own has no mini-batches to compare with, so it has no pilot")
    if job.graph.link:
        raise UserError(f"{job.name}: a link prediction has no mini-batches to compare with, so it has no pilot")
    if job.model.input_dropout or job.training.schedule != "constant":
        raise UserError(
            f"{job.name}: mini-batches have neither input_dropout nor training.schedule, so there is nothing to "
            f"compare; leave both out of a pilot"
        )
    if job.training.weather is not None:
        raise UserError(
            f"{job.name}: full batches would be planned with training.weather, mini-batches without; leave it out"
        )
    raw = job.model_dump(mode="json")
    plain = raw | {
        "objective": {},
        "search": {},
        "pin": {},
        "fidelity": "exact",
    }
    _, *decoupled = job.forms
    families = (
        plain | {"mini_batch": None},
        *(plain | {"mini_batch": None} | variant for variant in variants_of(job)),
        *(plain | {"fidelity": DECOUPLED, "model": form.model.model_dump(mode="json")} for form in decoupled),
        *(plain | {"mini_batch": each.model_dump(mode="json")} for each in batches or [usual_batches(job)]),
    )
    return tuple(Job.parse(family, where=job.name) for family in families)


def run_pilots(
    jobs: Sequence[Job],
    kept: Pilots | None = None,
    *,
    epochs: int = DEFAULT_EPOCHS,
    accuracy: float = 1.0,
    on_event: Callable[[Event], None] | None = None,
) -> Pilots:
    """Trains every job on this machine, one after another, and returns their curves with those kept before.

    Args:
        jobs: one a family (`families_of`).
        epochs: of each at most.
        accuracy: at which a training ends before.
        on_event: called with `{"event": "epoch", "words", "epoch", "epochs", "accuracy"}`.

    Raises:
        UserError: a job's graph cannot be read.
        RunFailedError: a training failed; the message names the cause.
    """
    with scratch("gnnplan-pilot-") as folder:
        handed = [job.with_paths_from(Path.cwd()).save(folder / f"job_{i}.json") for i, job in enumerate(jobs)]
        arguments = [str(folder), f"--epochs={epochs}", f"--accuracy={accuracy}", *(f"--job={path}" for path in handed)]
        here = [HostGroup(1, threads=max(1, num_usable_cores()))]
        launch("gnnplan.runtime.pilot", arguments, hosts=here, folder=folder, on_event=on_event)
        made = Pilots.load(folder / CURVES_FILE)
    return made if kept is None else reduce(Pilots.with_curve, made.curves, kept)
