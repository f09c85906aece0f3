"""The verb `pilot`: short trainings of a job's families, and which of their plans reaches an accuracy first."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gnnplan.planner.cluster import Cluster
from gnnplan.planner.given import output_folder
from gnnplan.planner.here import read_cluster
from gnnplan.planner.ignored_options import refuse_ignored
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.pilot.batches import kinds_of
from gnnplan.planner.pilot.best import PILOTS_FILE, Piloted, plan_to_accuracy
from gnnplan.planner.pilot.contract import Curve
from gnnplan.planner.pilot.kept import kept_pilots
from gnnplan.planner.pilot.reach import Reached, Way, to_accuracy
from gnnplan.planner.pilot.run import families_of
from gnnplan.planner.report.output import print_plain, print_wrote
from gnnplan.planner.report.progress import steps
from gnnplan.planner.report.tables import plan_table
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.sound_plan import load_plan
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import Event


def pilot(arguments: argparse.Namespace) -> None:
    """`gnnplan pilot`."""
    job, plans = Job.load(arguments.job), [load_plan(path) for path in arguments.plans]
    if not plans:
        refuse_ignored(arguments, "it is what --plans are compared by", "objective")
    elif arguments.accuracy is None:
        raise UserError("plans are compared at an accuracy: give --accuracy, such as 0.9")
    path = arguments.output or output_folder(job, arguments.job) / PILOTS_FILE
    check_writable(path)
    jobs, target = families_of(job, kinds_of(job, arguments.fan_outs, arguments.batch_sizes)), arguments.accuracy or 1.0
    with steps(Console(stderr=True), "loading the graph") as on_step:
        graph, on_event = load_graph(job.graph).fingerprint, partial(_tell, on_step)
        pilots = kept_pilots(jobs, graph, path, epochs=arguments.epochs, accuracy=target, on_event=on_event)
    reached = to_accuracy(pilots, plans, target, arguments.objective) if plans else None
    curves = [curve for each in jobs if (curve := pilots.of(each, graph))]
    _show(arguments, curves, reached)


def plan_by_pilots(
    job: Job, path: Path, arguments: argparse.Namespace, this_machine: Callable[[argparse.Namespace], Cluster]
) -> None:
    """`gnnplan plan --accuracy`.

    Args:
        path: of the plan.
        this_machine: the cluster where none is named.
    """
    batches = kinds_of(job, arguments.fan_outs, arguments.batch_sizes)
    families_of(job, batches)  # what has no pilot is said before anything is measured
    cluster = read_cluster(arguments.clusters[0]) if arguments.clusters else this_machine(arguments)
    with steps(Console(stderr=True), "loading the graph") as on_step:
        options = {"epochs": arguments.pilot_epochs, "is_here": not arguments.clusters, "batches": batches}
        done = plan_to_accuracy(
            job,
            cluster,
            load_graph(job.graph),
            path,
            arguments.accuracy,
            on_step=on_step,
            on_event=partial(_tell, on_step),
            **options,
        )
    _show_planned(arguments, path, done)


def _show_planned(arguments: argparse.Namespace, path: Path, done: Piloted) -> None:
    facts = {"words": done.words(), **_facts(done.reached)}
    if arguments.json:
        print(json.dumps({"plan": str(path), **done.plan.prediction.model_dump(mode="json"), "to_accuracy": facts}))
        return
    console = Console()
    console.print(_table(list(done.curves), arguments.accuracy), plan_table(done.plan))
    print_plain(done.words(), console)
    print_wrote(arguments, path)


def _tell(on_step: OnStep, event: Event) -> None:
    on_step(f"{event['words']}: epoch {event['epoch'] + 1} of {event['epochs']}, accuracy {event['accuracy']:.1%}")


def _show(arguments: argparse.Namespace, curves: list[Curve], reached: Reached | None) -> None:
    if arguments.json:
        facts: dict[str, Any] = {"curves": [curve.model_dump(mode="json") for curve in curves]}
        print(json.dumps(facts | ({"words": reached.words(), **_facts(reached)} if reached else {})))
        return
    console = Console()
    console.print(_table(curves, arguments.accuracy), highlight=False)
    if reached:
        print_plain(reached.words(), console)


def _facts(reached: Reached) -> dict[str, Any]:
    ways = [_facts_of(way) for way in reached.ways]
    best = reached.best
    of_best = {"best": best.family if best else None, "best_variant": best.curve.variant if best else None}
    return {**of_best, "is_sure": reached.is_sure, "ways": ways}


def _facts_of(way: Way) -> dict[str, Any]:
    return {"family": way.family, "variant": way.curve.variant, "epochs": way.epochs, "seconds": way.seconds}


def _table(curves: list[Curve], accuracy: float | None) -> Table:
    table = Table(title="accuracy by epochs, in a short training of each family")
    for column in ("family", "steps an epoch", "epochs", "best accuracy", "epochs to the accuracy"):
        table.add_column(column, justify="left" if column == "family" else "right")
    for curve in curves:
        epochs = curve.epochs_to(accuracy) if accuracy is not None else None
        to_it = "" if accuracy is None else str(epochs or f"more than {len(curve.accuracies)}")
        cells = (f"{curve.steps_per_epoch:,}", str(len(curve.accuracies)), f"{curve.best:.1%}", to_it)
        table.add_row(curve.words, *cells)
    return table
