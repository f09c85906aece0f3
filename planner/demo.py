"""The main job on an embedded default: measure, plan, simulate, run, compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.compare import Comparison
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph, TrainingSpec
from gnnplan.planner.perfetto import write_perfetto
from gnnplan.planner.report.picture import write_picture
from gnnplan.planner.report.tables import plan_table, profile_table

EPOCHS = 60


def demo_job() -> Job:
    """A two-layer GCN on a generated graph whose labels can be learnt."""
    return Job(
        schema_version=1,
        name="demo",
        graph=SbmGraph(source="sbm", num_nodes=50_000, average_degree=20.0, num_classes=8, num_features=128),
        model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=128),
        training=TrainingSpec(epochs=EPOCHS),
    )


def run_demo(
    folder: Path,
    num_workers: int,
    bar: Callable[[str, str], Any],
    epochs_bar: Callable[[], Any],
    say: Callable[[RenderableType], None],
) -> tuple[Comparison, dict[str, Path]]:
    """Runs all six steps into `folder`; returns the comparison and the files by what they are."""
    names = {
        "job": "job.json",
        "cluster": "cluster.json",
        "profile": "profile.json",
        "plan": "plan.json",
        "predicted trace": "predicted.json",
        "measured trace": "measured.json",
        "model": "model.pt",
        "comparison": "comparison.json",
        "Perfetto trace": "perfetto.json",
        "picture": "epoch.png",
    }
    files = {what: folder / name for what, name in names.items()}
    with bar("measuring this machine", "points") as on_progress:
        profile = api.profile_machine(num_workers=num_workers, quick=True, on_progress=on_progress)
    profile.save(files["profile"])
    say(profile_table(profile))

    device = DeviceSpec(profile=Path(names["profile"]), count=num_workers)
    cluster_file = Cluster(schema_version=1, name="this machine", hosts=(HostSpec(name="here", devices=(device,)),))
    cluster_file.save(files["cluster"])
    job = demo_job().model_copy(update={"pin": PinnedDecisions(num_workers=num_workers)})
    job.save(files["job"])
    plan = api.plan(job, Cluster.load(files["cluster"]), files["plan"])
    say(plan_table(plan))

    predicted = api.simulate(plan, num_replicas=1000)
    predicted.save(files["predicted trace"])
    with epochs_bar() as on_event:
        measured = api.run(files["plan"], folder, on_event=on_event)
    comparison = api.compare(predicted, measured)
    comparison.save(files["comparison"])
    write_perfetto(files["Perfetto trace"], [predicted, measured], ["predicted", "measured"])
    write_picture(files["picture"], predicted, measured)
    return comparison, files
