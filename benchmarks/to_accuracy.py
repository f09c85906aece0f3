"""Full batch against mini-batches, to an accuracy: is the family that pilots say is faster the one that is?

Both families of a job are piloted and planned on this machine, as `gnnplan plan --accuracy` does. Then both plans run
for as many epochs as their curves say (where a curve is too short, for all of it), and what they took is compared.
Setup and evaluation are in no figure, as in what was said. `said_right` counts settings where the family that was said
is the one that was faster, `regret` is by how much longer the said one took than the faster one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset, this_machine
from gnnplan.planner import api
from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.pilot.best import Piloted, plan_to_accuracy
from gnnplan.planner.pilot.contract import family_of
from gnnplan.planner.pilot.reach import Way
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition, save_plan
from gnnplan.planner.search import named
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.profiler import num_usable_cores

_GRAPHS = {"amazon_photo": (0.85, 0.93), "coauthor_cs": (0.85, 0.93), "facebook_page_page": (0.85, 0.92)}
_PILOT_EPOCHS = 150


def main(quick: bool) -> dict:
    """Two accuracies on each of three real graphs, one near what both families come to.

    The quick form has one on a small graph, and plans by published figures that stand in for a profile.
    """
    folder, rows, skipped = OUT / f"to_accuracy{'_quick' if quick else ''}", [], []
    shutil.rmtree(folder, ignore_errors=True)
    cluster = _stand_in(folder) if quick else this_machine(num_usable_cores(), quick=True, folder=folder)
    for job, accuracies in _jobs(quick, skipped):
        graph = load_graph(job.graph)
        for accuracy in accuracies:
            path = folder / job.name / "plan.json"
            done = plan_to_accuracy(job, cluster, graph, path, accuracy, is_here=True, epochs=_PILOT_EPOCHS)
            rows.append(_row(job.name, accuracy, done, path))
            print(f"{job.name}: {done.words()}", flush=True)
    _show(rows)
    return {
        "settings": len(rows),
        "said_right": sum(row["said"] == row["faster"] for row in rows),
        "worst_regret": max((row["regret"] for row in rows), default=None),
        "median_error": float(np.median([abs(way["error"]) for row in rows for way in row["ways"]])) if rows else None,
        "skipped": skipped,
        "rows": rows,
    }


def _stand_in(folder: Path) -> Cluster:
    device = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1})
    given = DeviceSpec(profile=device.save(folder / "stand_in.json"))
    return Cluster(hosts=(HostSpec(name="here", devices=(given,)),))


def _jobs(quick: bool, skipped: list[str]) -> Iterator[tuple[Job, tuple[float, ...]]]:
    if quick:
        spec = SbmGraph(source="sbm", num_nodes=1500, average_degree=10, num_features=16, num_classes=4, homophily=0.9)
        yield _job("small", spec, batch_size=256), (0.8,)
        return
    for name, accuracies in _GRAPHS.items():
        try:
            yield _job(name, NpzGraph(source="npz", path=dataset(name), split="random", split_seed=0)), accuracies
        except UserError as error:
            skipped.append(str(error))


def _job(name: str, graph: SbmGraph | NpzGraph, batch_size: int = 512) -> Job:
    return Job(
        name=name,
        graph=graph,
        model=ModelSpec(kind="sage", hidden_channels=64),
        training=TrainingSpec(learning_rate=0.01, epochs=_PILOT_EPOCHS),
        mini_batch=MiniBatchSpec(fan_outs=(10, 10), batch_size=batch_size),
    )


def _row(name: str, accuracy: float, done: Piloted, path: Path) -> dict:
    ways = [_way(way, path) for way in done.reached.ways]
    taken = {way["family"]: way["measured_s"] for way in ways}
    said, faster = done.reached.best.family if done.reached.best else "", min(taken, key=lambda each: taken[each])
    return {
        "graph": name,
        "accuracy": accuracy,
        "said": said,
        "faster": faster,
        "is_sure": done.reached.is_sure,
        "regret": taken[said] / taken[faster] - 1,
        "ways": ways,
    }


def _way(way: Way, path: Path) -> dict:
    """A family's plan, run for as many epochs as its curve says."""
    planned = path.with_name(f"{path.stem}.{way.family}{path.suffix}")
    epochs = way.epochs or len(way.curve.accuracies)
    trace = api.run(_of_epochs(planned, epochs), path.with_name(f"run_{way.family}"))
    predicted_s, measured_s = epochs * way.epoch_s, epochs * trace.mean_epoch_s
    return {
        "family": way.family,
        "epochs": epochs,
        "is_reached": way.epochs is not None,
        "predicted_s": predicted_s,
        "measured_s": measured_s,
        "error": predicted_s / measured_s - 1,
        "measured_accuracy": trace.accuracy["val"],
    }


def _of_epochs(planned: Path, epochs: int) -> Path:
    """The same plan for another number of epochs, in its file."""
    plan = Plan.load(planned)
    training = plan.job.training.model_copy(update={"epochs": max(epochs, 4)})  # the first two are not timed
    partition = load_partition(plan, planned)
    path = planned.with_name(f"run.{family_of(plan.job)}.json")
    changed = named(plan.model_copy(update={"job": plan.job.model_copy(update={"training": training})}), path)
    return save_plan(changed, partition, path)


def _show(rows: list[dict]) -> None:
    table = Table(title="to an accuracy: what was said, and what was measured")
    for column in ("graph", "accuracy", "family", "epochs", "predicted", "measured", "said", "faster"):
        table.add_column(column, justify="left" if column in ("graph", "family") else "right")
    for row, way in ((each, way) for each in rows for way in each["ways"]):
        epochs = f"{way['epochs']}" if way["is_reached"] else f"> {way['epochs']}"
        seconds = f"{way['predicted_s']:.2f} s", f"{way['measured_s']:.2f} s"
        is_said, is_faster = ("yes" if way["family"] == row[key] else "" for key in ("said", "faster"))
        table.add_row(row["graph"], f"{row['accuracy']:.0%}", way["family"], epochs, *seconds, is_said, is_faster)
    Console().print(table)
